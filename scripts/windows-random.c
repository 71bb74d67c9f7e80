/* BCryptGenRandom for crate getrandom 0.2, which ring takes its random numbers from: by ProcessPrng, which is beneath it in Windows 10 and later,
   and which Rust's standard library uses too. So bcrypt.dll is not loaded, which under Wine is GnuTLS with all that it needs. */
#include <windows.h>

#define USE_SYSTEM_PREFERRED_RNG 2
#define STATUS_FAILED ((LONG)0xC0000001)
#define STATUS_UNSUPPORTED ((LONG)0xC00000BB)

BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length);

LONG WINAPI BCryptGenRandom(void *algorithm, PUCHAR buffer, ULONG length, ULONG flags)
{
    if (algorithm || flags != USE_SYSTEM_PREFERRED_RNG)
        return STATUS_UNSUPPORTED;
    return ProcessPrng(buffer, length) ? 0 : STATUS_FAILED;
}

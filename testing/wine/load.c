/* A process of known CPU time, for the tests under Wine. In: commands on standard input, a line each. Out: a line for each command.
     pid             its id
     MS              the main thread uses so many milliseconds of CPU time
     spread N MS...  threads, made by the first such command, use so many milliseconds each in every one of N seconds
     births N MS     N threads, one after another, use so many milliseconds each and end
   The answer to all but the first is the CPU time of the process in ns, then " TID:NS" for each thread of `spread`, all by the
   counters of the system. Ends with its input. */
#define _WIN32_WINNT 0x0A00
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS MAXIMUM_WAIT_OBJECTS

/* Older headers of MinGW lack it. */
HRESULT WINAPI SetThreadDescription(HANDLE thread, PCWSTR name);

typedef ULONGLONG ns_t;

struct worker {
    HANDLE handle, go, done;
    DWORD id;
    unsigned ms, seconds;
    ns_t target;
};

static struct worker workers[MOST_THREADS];
static int worker_count;

static ns_t sum(FILETIME kernel, FILETIME user)
{
    ULONGLONG units = ((ULONGLONG)kernel.dwHighDateTime << 32 | kernel.dwLowDateTime)
        + ((ULONGLONG)user.dwHighDateTime << 32 | user.dwLowDateTime);
    return units * 100;
}

/* By a real handle: what GetCurrentThread() gives, Wine answers with the times of the whole process. */
static ns_t thread_ns(DWORD id)
{
    FILETIME created, ended, kernel, user;
    HANDLE thread = OpenThread(THREAD_QUERY_LIMITED_INFORMATION, FALSE, id);
    if (!thread || !GetThreadTimes(thread, &created, &ended, &kernel, &user))
        exit(4);
    CloseHandle(thread);
    return sum(kernel, user);
}

static ns_t process_ns(void)
{
    FILETIME created, ended, kernel, user;
    if (!GetProcessTimes(GetCurrentProcess(), &created, &ended, &kernel, &user))
        exit(5);
    return sum(kernel, user);
}

static void use_until(ns_t target)
{
    DWORD own = GetCurrentThreadId();
    while (thread_ns(own) < target)
        for (volatile int i = 0; i < 300000; i++)
            ;
}

static void use(unsigned ms)
{
    use_until(thread_ns(GetCurrentThreadId()) + ms * 1000000ULL);
}

static DWORD WINAPI work(void *argument)
{
    struct worker *own = argument;
    for (;;) {
        WaitForSingleObject(own->go, INFINITE);
        for (unsigned second = 0; second < own->seconds; second++) {
            ULONGLONG end = GetTickCount64() + 1000, now;
            own->target += own->ms * 1000000ULL;
            use_until(own->target);
            now = GetTickCount64();
            if (now < end)
                Sleep((DWORD)(end - now));
        }
        SetEvent(own->done);
    }
    return 0;
}

static DWORD WINAPI live_briefly(void *ms)
{
    use((unsigned)(ULONG_PTR)ms);
    return 0;
}

static void start_worker(struct worker *worker, int number)
{
    WCHAR name[32];
    worker->go = CreateEventW(NULL, FALSE, FALSE, NULL);
    worker->done = CreateEventW(NULL, FALSE, FALSE, NULL);
    worker->handle = CreateThread(NULL, 0, work, worker, CREATE_SUSPENDED, &worker->id);
    if (!worker->handle)
        exit(6);
    /* "größe-N" and "漢字-N". */
    _snwprintf(name, 32, number % 2 ? L"\x6f22\x5b57-%d" : L"gr\x00f6\x00df" L"e-%d", number);
    if (FAILED(SetThreadDescription(worker->handle, name)))
        exit(7);
    ResumeThread(worker->handle);
}

static void spread(char *words)
{
    unsigned seconds = strtoul(words, &words, 10);
    HANDLE done[MOST_THREADS];
    int count = 0;
    for (char *word = strtok(words, " "); word && count < MOST_THREADS; word = strtok(NULL, " "), count++) {
        workers[count].seconds = seconds;
        workers[count].ms = strtoul(word, NULL, 10);
    }
    for (; worker_count < count; worker_count++)
        start_worker(&workers[worker_count], worker_count);
    for (int i = 0; i < count; i++) {
        done[i] = workers[i].done;
        SetEvent(workers[i].go);
    }
    WaitForMultipleObjects(count, done, TRUE, INFINITE);
}

static void births(char *words)
{
    unsigned count = strtoul(words, &words, 10), ms = strtoul(words, NULL, 10);
    while (count--) {
        HANDLE thread = CreateThread(NULL, 0, live_briefly, (void *)(ULONG_PTR)ms, 0, NULL);
        if (!thread)
            exit(6);
        WaitForSingleObject(thread, INFINITE);
        CloseHandle(thread);
    }
}

int main(void)
{
    char line[512];
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "pid", 3)) {
            printf("%lu\n", GetCurrentProcessId());
            fflush(stdout);
            continue;
        }
        if (!strncmp(line, "spread ", 7))
            spread(line + 7);
        else if (!strncmp(line, "births ", 7))
            births(line + 7);
        else
            use(strtoul(line, NULL, 10));
        printf("%llu", process_ns());
        for (int i = 0; i < worker_count; i++)
            printf(" %lu:%llu", workers[i].id, thread_ns(workers[i].id));
        printf("\n");
        fflush(stdout);
    }
    return 0;
}

// The ring buffer of events.
// traces:   nothing itself.
// produces: the buffer, and the count of the events that did not fit it, by kind.
// costs:    one query of the buffer's size an event.
#pragma once

#include "../records/records.h"

// user space sets the size before it loads this
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 21);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ring_drops);
} ring_drops SEC(".maps");

// Counts an event of this kind that did not fit.
static __noinline int count_drop(__u32 kind)
{
	__u32 zero = 0;
	struct ring_drops *drops = bpf_map_lookup_elem(&ring_drops, &zero);

	if (!drops)
		return 0;
	if (kind == EVENT_EXIT)
		__sync_fetch_and_add(&drops->exits, 1);
	else if (kind == EVENT_EXEC)
		__sync_fetch_and_add(&drops->execs, 1);
	else if (kind == EVENT_ENDING)
		__sync_fetch_and_add(&drops->endings, 1);
	else if (kind == EVENT_CUT)
		__sync_fetch_and_add(&drops->cuts, 1);
	else
		__sync_fetch_and_add(&drops->groups, 1);
	return 0;
}

// Wakes user space only when the buffer is half full; otherwise the next snapshot empties it.
static __always_inline __u64 wakeup(void)
{
	__u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
	__u64 size = bpf_ringbuf_query(&events, BPF_RB_RING_SIZE);

	return waiting > size / 2 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

// Shared memory that a killed rank has left behind. UCX gives a segment a name in /dev/shm for the few ms in which it is made, then takes
// the name away, so that the kernel frees it with its last user; a process that is killed in these ms leaves name and memory for ever.
// No state; any thread. Invariant: what any process that can be seen has open or mapped stays, and so does what others own.
#pragma once

namespace troupe::collective {

/// Removes such segments of this user, whoever left them. Looks at processes only where there is one.
void remove_left_segments();

}  // namespace troupe::collective

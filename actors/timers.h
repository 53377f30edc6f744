// Timers that actors set for themselves. They never leave the actor that made them, so they are CAF atoms and no messages of a protocol.
#pragma once
#include <caf/atom.hpp>

namespace troupe::actors {

using WakeAtom = caf::atom_constant<caf::atom("wake")>;          // the scheduler's next time point
using LeaseAtom = caf::atom_constant<caf::atom("lease")>;        // the rest of a lease is overdue
using GraceAtom = caf::atom_constant<caf::atom("grace")>;        // end of a drain
using WatchAtom = caf::atom_constant<caf::atom("watch")>;        // watchdog
using SliceAtom = caf::atom_constant<caf::atom("slice")>;        // tokenize the next slice
using DeadlineAtom = caf::atom_constant<caf::atom("deadline")>;  // of a request
using RetryAtom = caf::atom_constant<caf::atom("retry")>;        // ask again
using ReplyAtom = caf::atom_constant<caf::atom("reply")>;        // a reply is overdue
using RenewAtom = caf::atom_constant<caf::atom("renew")>;        // pins are told again, what is too old goes
using WriteAtom = caf::atom_constant<caf::atom("write")>;        // ask for write-downs
using JoinAtom = caf::atom_constant<caf::atom("join")>;          // what has been joined since is told
using StartAtom = caf::atom_constant<caf::atom("start")>;        // a rank process
using LateAtom = caf::atom_constant<caf::atom("late")>;          // a rank process has not joined
using EndAtom = caf::atom_constant<caf::atom("end")>;            // all has been told: the process may end

}  // namespace troupe::actors

"""What the simulated GPU says of PTX texts and of kernels that do something wrong."""

from sexpgpu.diag.catalogue.entry import Entry

ENTRIES = (
    Entry("E-SIM-001", "not PTX",
          "The simulated device reads the text form of NVIDIA's intermediate language: `.version` and `.target` at its "
          "head, then variables and functions.",
          "sexpgpu-sim README.md --grid 1 --block 32"),
    Entry("E-SIM-002", "no address range",
          "The memory of the simulated device is a range of addresses that the system reserves without giving memory "
          "for it. A limit on virtual memory (`ulimit -v`) stands in the way."),
    Entry("E-SIM-003", "memory that is not the device's",
          "The host read, wrote or freed an address outside every allocation of the simulated device."),
    Entry("E-SIM-004", "no such kernel", "A module has the entries that its text declares with `.entry`.",
          "sexpgpu-sim kernel.ptx --entry sofmax --grid 1 --block 32"),
    Entry("E-SIM-005", "a launch that is not possible",
          "Arguments are as many as the kernel's parameters and fit them; a block has at most 1024 threads and no more "
          "than the kernel was compiled for, and as much shared memory as a multiprocessor gives a block.",
          "sexpgpu-sim kernel.ptx --grid 1 --block 2048"),
    Entry("E-SIM-006", "an argument that cannot be made",
          "`--arg` is TYPE:VALUE for a number, TYPE:COUNT:FILL for an array in device memory, with FILL zeros, ones, "
          "random, range or empty.",
          "sexpgpu-sim kernel.ptx --grid 1 --block 32 --arg f32:many:random"),
    Entry("E-SIM-010", "a call that cannot be followed",
          "Device functions are executed where they are called. One without a body, one that calls itself, or one that "
          "is called through a register has no such place."),
    Entry("E-SIM-011", "an instruction that is not known",
          "The simulated device executes what the compiler emits and refuses everything else; nothing is passed over. "
          "The message names the part of the instruction that is not known."),
    Entry("E-SIM-012", "a label that is not there",
          "A branch goes to a label of its own function, or of a scope of it that is open where the branch stands."),
    Entry("E-SIM-020", "global memory out of bounds",
          "A thread touched bytes outside every allocation. Allocations are kept apart by gaps, so running over the "
          "end of one does not reach the next; memory that was freed is outside as well."),
    Entry("E-SIM-021", "shared, local or constant memory out of bounds",
          "A block has the shared memory that the kernel declares and the launch adds, a thread the local memory that "
          "the kernel declares; parameters and constants are not written."),
    Entry("E-SIM-022", "a misaligned access",
          "An access of n bytes, a vector as a whole, is at an address that n divides."),
    Entry("E-SIM-023", "a read of memory that nobody wrote",
          "Device memory, shared and local memory have no content before they are written. The byte that is shown had "
          "not been written by the host or by a thread."),
    Entry("E-SIM-024", "a race",
          "Two threads touched the same byte, at least one of them wrote, and no barrier lies between: what the kernel "
          "computes depends on who came first. Between blocks only atomic updates put accesses in an order."),
    Entry("E-SIM-025", "bytes of an unfinished copy",
          "An asynchronous copy is done when its thread has waited for it (`cp.async.wait_group`); for other threads a "
          "barrier has to follow. Before that its destination is neither read nor written."),
    Entry("E-SIM-030", "a barrier that not every thread reaches",
          "All threads of a block, or as many as the barrier counts, come to a barrier before one goes on. A thread "
          "that has ended, or waits at another barrier, never comes."),
    Entry("E-SIM-031", "a warp at two barriers",
          "The lanes of a warp reach a barrier by the same instruction."),
    Entry("E-SIM-032", "not a barrier", "A block has barriers 0 to 15, and each waits for a whole number of warps."),
    Entry("E-SIM-033", "an mbarrier that is used wrongly",
          "An mbarrier is initialised for at least one arrival, and a phase takes no more arrivals than that."),
    Entry("E-SIM-034", "an mbarrier that nobody completes",
          "Threads look at an mbarrier again and again and no phase of it ends: arrivals are missing, or bytes that "
          "were announced with `expect_tx` and never copied."),
    Entry("E-SIM-035", "no tensor map",
          "A bulk copy of a tensor takes the address of a tensor map, in memory or among the parameters, with as many "
          "axes as the instruction has coordinates."),
    Entry("E-SIM-040", "lanes that do not come",
          "A warp-wide instruction (`shfl.sync`, `vote.sync`, `mma.sync`, …) waits for every lane that its mask names. "
          "Here one of them has ended or waits elsewhere."),
    Entry("E-SIM-041", "a shuffle from an absent lane",
          "The value of a lane that does not take part in a shuffle is undefined."),
    Entry("E-SIM-042", "a mask without its own lane",
          "A lane that runs a warp-wide instruction is named by the instruction's mask."),
    Entry("E-SIM-043", "a kernel that does not end",
          "The kernel came to many more places of its code than any that ends; `--visits` of `sexpgpu-sim` says to how "
          "many it may. Blocks run in batches, one batch after the other: "
          "a block that waits for a later one waits forever."),
    Entry("E-SIM-044", "a kernel that stopped itself",
          "A thread came to `trap`, by which a kernel says that something it relies on does not hold."),
    Entry("E-SIM-045", "a branch outside its table", "`brx.idx` chooses one of as many labels as its table has."),
)  # fmt: skip

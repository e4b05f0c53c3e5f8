"""Devices that run kernels: opening them, their memory, several of them, and what the simulator finds."""

from sexpgpu.diag.catalogue.entry import Entry

ENTRIES = (
    Entry("E-DEV-002", "no GPU",
          "`--device cuda` needs an NVIDIA GPU and its driver, whose library libcuda.so.1 the system finds. "
          "`sexpgpu doctor` says what of it is there. `--device sim` executes the same kernels without a GPU, slowly.",
          "sexpgpu run file.sx --device cuda"),
    Entry("E-DEV-003", "a driver that is too old",
          "Kernels are made for CUDA 13, which drivers of the 580 series and newer run. The driver is the system's, "
          "not a Python package: its administrator updates it.",
          ""),
    Entry("E-DEV-004", "a GPU that is too old",
          "Kernels use bf16 tensor cores and asynchronous copies, which GPUs have from compute capability 8.0 on: "
          "A100, L4, H100 and newer.",
          ""),
    Entry("E-DEV-005", "the GPU failed",
          "The CUDA driver refused a call or a kernel failed; its reason is shown. The state of the device is lost "
          "with the process: `--resume latest` goes on from the last checkpoint.",
          ""),
    Entry("E-DEV-006", "kernels that the device does not take",
          "The device refused a module of generated kernels: a fault of the compiler, or a driver older than the "
          "kernels' PTX. The module is one of those that `sexpgpu ir --stage ptx` prints.",
          ""),
    Entry("E-MEM-003", "no memory in the middle of a run",
          "The device had no memory for a training microbatch, although the plan fitted when the run began: another "
          "process has taken some. A microbatch is tried once more after everything cached was let go; the run ends "
          "where that does not help, or at the third microbatch in a row that finds no memory at first. "
          "`--resume latest` goes on from the last checkpoint.",
          ""),
    Entry("E-DP-001", "GPUs that a run cannot take",
          "SEXPGPU_DEVICES lists the GPUs of a run by their numbers, in the order of their ranks, each once: `0,1`. "
          "Unset it means every GPU that is visible; CUDA_VISIBLE_DEVICES limits what is.",
          "SEXPGPU_DEVICES=0,0 sexpgpu run file.sx --device cuda"),
    Entry("E-DP-002", "a resume with another number of ranks or machines",
          "Sums over the ranks of a run are added up rank by rank, so a run that goes on with another number of them, "
          "or of machines, is not the run that was stopped. Under `(defrun ... :deterministic t)`, or `run "
          "--deterministic`, sums do not depend on either, and any number goes on.",
          "SEXPGPU_DEVICES=0,1 sexpgpu run file.sx --device sim --resume latest"),
    Entry("E-DP-003", "microbatches that do not divide over the devices",
          "A step's :microbatches are split over the devices of a run, those of all its machines, as many for each.",
          "SEXPGPU_DEVICES=0,1 sexpgpu run file.sx --device sim"),
    Entry("E-DP-004", "ranks that do not hold the same",
          "Every rank makes the same updates of the same gradients, so parameters, optimizer states and "
          "buffers are the "
          "same bits on all, and so is what was chosen between kernels and libraries. Before a checkpoint all are "
          "compared. A difference is a fault of sexpgpu, of a driver or of the hardware, never of the experiment: the "
          "checkpoint is not written, and `--resume latest` goes on from the one before. Please report the "
          "whole message.",
          ""),
    Entry("E-DP-005", "machines that do not make a run",
          "A run over several machines needs SEXPGPU_NODES (how many), SEXPGPU_NODE_RANK (which this is, from 0) and "
          "SEXPGPU_RENDEZVOUS (`host:port` of machine 0, where that can listen) on each, and "
          "SEXPGPU_DEVICE=cuda, or sim "
          "in its place. SEXPGPU_NODE_GRADIENTS is bf16 or f32, the same on all. With one of these set and "
          "SEXPGPU_NODES unset a machine would train alone: SEXPGPU_NODES=1 asks for that.",
          "SEXPGPU_NODES=2 sexpgpu run file.sx"),
    Entry("E-DP-006", "a machine that is about to run something else",
          "Before the first step each machine tells machine 0 what it is about to run: how many machines, "
          "which of them "
          "it is, its number of GPUs, the experiment, its data, the last step, the dtype of gradients, the checkpoint "
          "that it goes on from. The message has both values. Every machine takes the same files, flags, number of "
          "devices and place of checkpoints.",
          ""),
    Entry("E-DP-007", "a machine that is not there",
          "A machine did not arrive at the rendezvous within SEXPGPU_NODE_WAIT seconds (300), ended before the run "
          "began because its own checks stopped it (their code is shown), or left the run: it was "
          "ended, an error stopped it (its code is shown), nothing was heard of it for a minute, or its loop has stood "
          "still for six times SEXPGPU_NODE_WAIT, at least ten minutes. Start "
          "every machine; "
          "after a loss every machine with `--resume latest`.",
          ""),
)  # fmt: skip

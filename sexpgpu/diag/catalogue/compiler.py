"""The codes of the compiler itself: modules that do not parse or verify."""

from sexpgpu.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry("E-IR-001", "not a module",
          "The text is not valid MLIR: it does not parse, names an operation or attribute that does not exist, or "
          "breaks a rule of an operation.",
          "module { \"sx.foo\"() : () -> () }"),
    Entry("E-IR-002", "a module that does not verify",
          "An operation breaks a rule of its dialect. When a pass of the compiler made the module this is a fault "
          "of the compiler, and worth a report."),
    Entry("E-IR-003", "not a pass pipeline",
          "The text names a pass that does not exist or is not written as `builtin.module(pass,pass{option=1})`.",
          "builtin.module(canonicalise)"),
    Entry("E-IR-004", "a pass failed",
          "A pass of MLIR gave up on the module; what it reported is below."),
    Entry("E-IR-010", "no such pass or option",
          "Passes are given as --sx-NAME or --sx-NAME=option=value,option=value.",
          "sexpgpu-opt train.mlir --sx-simplfy"),
    Entry("E-IR-011", "an option of the wrong type",
          "A pass's option takes a value of the type that its dataclass field has.",
          "--sx-fuse=target=3"),
    Entry("E-IR-012", "no such pipeline",
          "`sexpgpu-opt --pipeline` runs the passes of a list that the compiler itself uses.",
          "sexpgpu-opt train.mlir --pipeline shard"),
    Entry("E-IR-013", "a pass that cannot be skipped",
          "`--skip` leaves out a pass that makes an experiment faster or smaller; without gradients it would be no "
          "experiment.",
          "sexpgpu run gpt.sx --skip autodiff"),
    Entry("E-IR-014", "no such stage",
          "A stage is the module as it was traced (`traced`, 0) or as a pass left it: the pass's name, its number in "
          "the pipeline, or both as in `06-autodiff`. A pass that runs several times is named with its number. Passes "
          "that make kernels are stages of the devices sim and cuda: `ir --device`, or SEXPGPU_DEVICE. `run "
          "--from` reads the stage from the name of the file.",
          "sexpgpu ir gpt.sx --stage autodif"),
    Entry("E-IR-015", "a module of another experiment",
          "`run --from` goes on from a module that was dumped for the same file under the same selection; passes may "
          "change what its graphs do, not their arguments and results.",
          "sexpgpu run gpt.sx --from dump/03-simplify.mlir --set width=128"),
    Entry("W-IR-001", "batches that a dumped module does not reach",
          "A module that `run --from` goes on from has the graphs at one number of records. A batch of another size, "
          "as the last one of an epoch or of an evaluation may be, is traced and compiled from the file.",
          "sexpgpu run gpt.sx --from dump/03-simplify.mlir"),
    Entry("E-IR-016", "no kernels were compiled",
          "The text of kernels is there once the passes of a GPU have run: fuse for it, to-gpu, to-nvvm, to-ptx.",
          "sexpgpu-opt module.mlir --sx-simplify --ptx"),
    Entry("E-IR-020", "types that the operation does not give",
          "Shapes and dtypes of an operation follow from its operands by one rule, the one that tracing used. A module "
          "that says otherwise was edited by hand, or a pass is at fault.",
          "\"sx.exp\"(%x) : (tensor<2xf32>) -> tensor<3xf32>"),
    Entry("E-IO-101", "no such file", "The file named on the command line does not exist.", "sexpgpu check nothing.sx"),
    Entry("E-IO-102", "no file",
          "An experiment is one file; a directory, a pipe or a device was given. `-` reads from standard input.",
          "sexpgpu check examples"),
    Entry("E-IO-103", "not text", "An experiment file is UTF-8 text.", "sexpgpu check weights.safetensors"),
    Entry("E-IO-104", "a file that cannot be read", "The system refused to read the file; its reason is shown.", ""),
    Entry("E-IO-105", "a dump that cannot be written", "SEXPGPU_DUMP names a folder for modules after each pass.", ""),
    Entry("E-IO-106", "a file that cannot be written",
          "The system refused to write what `fmt`, `new` or `-o` names, or standard output. The folder must exist "
          "and be writable. `fmt` and `new` write a file whole or not at all.",
          "sexpgpu new no-such-folder/mine.sx --template mlp"),
    Entry("E-IO-107", "a file that exists already",
          "`new` never overwrites: name another file, or remove that one first. `generate` writes over images and "
          "arrays only with --force; without it nothing is written when one of its files is there.",
          "sexpgpu new examples/moons.sx --template mlp"),
    Entry("E-USE-001", "wrong usage",
          "The command has a flag, a value or a number of arguments that its verb does not take: `--help` shows what "
          "it takes. Exit code 2. Only the document of --json has the code; standard error has the text as it is.",
          "sexpgpu check run.sx --jason"),
    Entry("E-INT-001", "a fault of sexpgpu",
          "An exception that no experiment should be able to raise. `run` prints its traceback and ends with exit code "
          "70; `status.json` and the events of the run keep its text under this code.",
          ""),
    Entry("E-REDUCE-001", "no such code to keep",
          "`reduce --code` keeps a diagnostic of the list of error codes.",
          "sexpgpu reduce broken.sx --code E-SHPE-010"),
    Entry("E-REDUCE-002", "nothing to keep",
          "`reduce` starts from a file that fails in the way that is to be kept. Selection flags may be what makes it "
          "fail.",
          "sexpgpu reduce examples/moons.sx --internal"),
    Entry("E-MEM-001", "a run that does not fit",
          "The plan says before the first step what a run holds at once: parameters and optimizer states, twice since "
          "a step that is refused leaves them as they were, gradients, buffers, a batch, constants, and the arena of "
          "the largest graph. That is more than `:memory` or SEXPGPU_MEMORY allows. `:recompute :auto` makes the arena "
          "of the train graph smaller at the price of work; a smaller batch with more :microbatches gives the same "
          "step. Where what neither changes is too much already, the message says how much that is: a smaller model or "
          "another optimizer takes less. `generate` on a GPU says the same of a generator, before it reads the "
          "checkpoint.",
          "SEXPGPU_MEMORY=64kB sexpgpu run examples/moons.sx"),
    Entry("E-MEM-002", "out of memory",
          "The system had no memory for the result of an operation. A smaller batch with more :microbatches takes less "
          "and gives the same step.",
          ""),
    Entry("E-PLAN-001", "a plan that differs from the reference",
          "SEXPGPU_CHECK=1 runs the reference beside every step of a plan and stops at the first that differs by more "
          "than another order of sums explains. It is a fault of the compiler, not of the experiment: the step, the "
          "element and both values say where to look.",
          "SEXPGPU_CHECK=1 sexpgpu run gpt.sx --steps 3"),
)  # fmt: skip

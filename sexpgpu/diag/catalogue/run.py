"""The codes of data, runs, checkpoints, devices and input/output."""

from sexpgpu.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "E-VALUE-031",
        "a character the text does not have",
        "A prompt is made of characters that the model was trained on.",
        "sexpgpu generate runs/shakespeare-1 --prompt '你好'",
    ),
    Entry(
        "E-LOAD-001",
        "no such file",
        "A source names a file that is not there. A relative path counts from the folder of the file that "
        "says it, not from the working directory. `check` needs no data when the source declares its "
        "facts; `run` does.",
        '(chars "data/no-such-file.txt" :vocab 65)',
    ),
    Entry(
        "E-LOAD-002",
        "a file that cannot be opened",
        "What the path names is a folder, or the system refuses to open it.",
        '(chars "data")',
    ),
    Entry(
        "E-LOAD-003",
        "a file that is not what its source expects",
        "The bytes do not form the kind of file that the source reads: a truncated or damaged file, a "
        "wrong magic number, a text that is not UTF-8, rows of different lengths, a cell that is no "
        "number, a line that is no JSON object, or elements of a type that records cannot have. The message says "
        "where. Files named `.gz`, `.bz2` and `.xz` are decompressed first.",
        '(npy "picture.png")',
    ),
    Entry(
        "E-LOAD-004",
        "no such column, key or array",
        "The file has nothing under that name, or several columns; of a file of JSON objects the message names the "
        "line. Columns are named by the header, without "
        "regard to case, or by their place from 0, negative ones from the end. A header with another number of "
        "cells than the rows names nothing.",
        '(csv "table.csv" "heigth")',
    ),
    Entry(
        "E-LOAD-005",
        "a fact that nothing tells",
        "To compile without the data, the file must declare what it needs to know of them: `:shape`, "
        "`:dtype`, `:count`, `:vocab`. The message names the keyword. With the data in place nothing "
        "needs to be declared.",
        '(vocab-size (chars "absent.txt"))',
    ),
    Entry(
        "E-LOAD-006",
        "records that are not there",
        "A cut, a window or a `take` asks for more records than there are, or leaves none. An integer "
        "counts records, a float f stands for floor(n * f). `contexts` need lines with a BOS, a normalization "
        "needs statistics of records of its own shape, sources that are joined need records of one type and ids "
        "of one meaning, and streams need a record for each row of a step.",
        "(window text 100000000)",
    ),
    Entry(
        "E-LOAD-007",
        "data that contradict the file",
        "The source declares a fact and the data say otherwise. The experiment was compiled for what was "
        "declared, so the run does not start.",
        '(chars "data/tinyshakespeare.txt" :vocab 64)',
    ),
    Entry(
        "E-LOAD-008",
        "fields of different lengths",
        "The fields of a loader are read together, record by record, so all must have the same number of records.",
        '(defloader l (:batch 4) (x (npy "a.npy")) (y (npy "b.npy")))',
    ),
    Entry(
        "E-LOAD-009",
        "an index file that does not fit",
        "An index file is an array of i32 or i64 with one row a batch. It counts records in the uncut "
        "source (a window by the item that it starts at); -1 may only end a row. Past its last row a run "
        "stops, unless the loader says `:wrap t`.",
        '(defloader l (:batch 4 :order (index-file "order.npy")) (x (npy "a.npy")))',
    ),
    Entry(
        "E-LOAD-010",
        "a length that is none",
        "A window, its stride, `contexts`, `take`, `:pad`, and every declared fact count something: one at least; "
        "`:skip` may be 0. The weights of a `mix` are numbers above 0. A declared `:shape` has an axis for the "
        "records, and a table's has two.",
        """(csv "table.csv" :shape '(100))""",
    ),
    Entry(
        "E-LOAD-011",
        "an address instead of a path",
        "Sources read files of this machine. A path with `://` in it compiles, with its facts declared, but a run "
        "needs the file.",
        '(npy "s3://bucket/tokens.npy" :shape \'(1000) :dtype :i32)',
    ),
    Entry(
        "E-LOAD-012",
        "a by-step field that ends too soon",
        "Row k of a `by-step` field belongs to step k of the run, or to evaluation k of a pass, so it needs as many "
        "rows as there are of those. That is checked before the first step.",
        '(noise (by-step (npy "ten-rows.npy"))) in a run of 20 steps',
    ),
    Entry(
        "W-LOAD-002",
        "streams that do not go on",
        "With `:order :streams` row r of a batch is to continue row r of the batch before. Windows do when each begins "
        "where the one before ended: every n items, or every n - 1 where targets are inputs shifted by one.",
        "(defloader train-loader (:batch 50 :order :streams) (tokens (window text 51)))",
    ),
    Entry(
        "W-LOAD-001",
        "a batch larger than the data",
        "The train loader asks for more records in a batch than there are. In order or shuffled each record is read "
        "once in an epoch, so every batch is all the data and smaller than the file says.",
        '(defloader train-loader (:batch 2000) (x (npy "fifty-records.npy")))',
    ),
    Entry(
        "E-RUN-101",
        "a stop behind the plan",
        "`--steps` ends a run sooner than its file plans, so that going on later gives the same numbers "
        "as never having stopped. It cannot lengthen the plan: learning rates and evaluations depend on "
        "it.",
        "sexpgpu run file.sx --steps 5000",
    ),
    Entry(
        "E-RUN-102",
        "a checkpoint past the end of the run",
        "The run is to end before the step of the checkpoint that it would go on from, so there is nothing it could "
        "do. Nothing was changed. `--steps` counts from the start of the run, not from the checkpoint.",
        "sexpgpu run file.sx --steps 500; sexpgpu run file.sx --resume latest --steps 100",
    ),
    Entry(
        "E-RUN-103",
        "a stage that is not there",
        "`curriculum` gave a number that is no stage of the train loader; stages count from 0.",
        "(defun curriculum (ctx) 7)",
    ),
    Entry(
        "E-NUM-001",
        "too many steps that were not finite",
        "A step whose loss or gradient norm is NaN or infinite changes nothing and is reported. After "
        "`:max-skipped` of them in a row the run stops, with a checkpoint of the last good state. A run that "
        "reaches its end without one step that was finite trained nothing, and ends in this error too.",
        "(defun objective (x y) (log (- (mse x y))))",
    ),
    Entry(
        "W-NUM-001",
        "a step that was not finite",
        "Loss or gradient norm was NaN or infinite, so nothing of the step was kept. The event names the loss or the "
        "parameter whose gradient it was, the step, the records and the line. The graph is run once more to tell "
        "which of its inputs or operations was not finite first.",
    ),
    Entry(
        "E-CKPT-001",
        "no checkpoint that is whole",
        "Every checkpoint of the run is damaged. The notes say what is wrong with each; none was deleted.",
        "sexpgpu run file.sx --resume latest",
    ),
    Entry(
        "E-CKPT-002",
        "a damaged checkpoint",
        "A file of the checkpoint is missing, has another length, or its SHA-256 is not the one that was "
        "written with it. `--resume latest` takes the newest one that is whole.",
        "sexpgpu run file.sx --resume runs/x/checkpoints/step-00000500",
    ),
    Entry(
        "E-CKPT-003",
        "a checkpoint of another experiment",
        "A resumed run equals one that never stopped only if the experiment is the same: sources, knob "
        "values, version, and the data: for each field the number of records, and the bytes and SHA-256 of its files "
        "(above 16 MiB only the bytes). The notes list what differs, old and new. `--allow-changed` goes on and "
        "records the changes.",
        "sexpgpu run file.sx --set lr=0.1 --resume latest",
    ),
    Entry(
        "E-CKPT-004",
        "a checkpoint with other tensors",
        "Names, shapes and types of a checkpoint's tensors must be those of the experiment, all of them. "
        "The notes list each that is missing, unknown or different.",
        "sexpgpu run file.sx --resume latest --allow-changed",
    ),
    Entry(
        "E-CKPT-005",
        "the last checkpoint could not be written",
        "The run is over but its final state is not on the disk, most often because the disk is full. "
        "Earlier checkpoints are as they were: make room and resume.",
        "sexpgpu run file.sx --out /full/disk",
    ),
    Entry(
        "E-CKPT-006",
        "weights that do not fit the model",
        "`--init` needs a tensor for every parameter, by its path, of its shape; floats are converted. "
        "The notes list everything that is missing, unknown or different.",
        "sexpgpu run file.sx --init weights.safetensors",
    ),
    Entry(
        "E-CKPT-007",
        "a weights file that cannot be read",
        "`--init` takes a safetensors file of float, integer or boolean tensors; this one is missing, is "
        "something else, or is cut short.",
        "sexpgpu run file.sx --init weights.txt",
    ),
    Entry(
        "E-CKPT-008",
        "not a checkpoint",
        "`--resume` takes `latest` or the directory of one checkpoint, which has a `checkpoint.json`. A run's "
        "directory is none; the notes list the checkpoints in it or beside what was named. Nothing was written. "
        "`generate` takes a run's directory too, whose newest checkpoint it is.",
        "sexpgpu run file.sx --resume runs/x",
    ),
    Entry(
        "W-CKPT-001",
        "a checkpoint could not be written",
        "The disk is full or failed. Training goes on, earlier checkpoints are untouched, the next one is "
        "tried when it is due.",
    ),
    Entry(
        "W-CKPT-002",
        "a damaged checkpoint was passed over",
        "The newest checkpoint is not whole, so the run goes on from an older one. The damaged one is "
        "kept under `checkpoints/superseded`.",
    ),
    Entry(
        "W-CKPT-003",
        "nothing to resume",
        "`--resume latest` found no checkpoint and starts at step 0, so that one command can start and restart a run.",
    ),
    Entry(
        "W-CKPT-004",
        "an old checkpoint could not be deleted",
        "The system refused to delete a checkpoint that `:keep` no longer wants.",
    ),
    Entry(
        "W-CKPT-005",
        "events were lost",
        "The event stream is shorter than the checkpoint remembers, or events before the checkpoint never found "
        "room on the disk: the history has a gap. The tensors are not affected.",
    ),
    Entry(
        "W-CKPT-006",
        "rounding errors of gradients that a resume does not use",
        "The checkpoint is of a run of several machines whose gradients travel as bf16. What rounding had taken from "
        "them up to then is in it, to be added to the next ones; a run that sends its gradients exactly does not.",
    ),
    Entry(
        "E-IO-001",
        "a directory that cannot be written",
        "The run's directory cannot be made or written: a file of that name, missing rights, a full disk.",
        "sexpgpu run file.sx --out /proc/x",
    ),
    Entry(
        "E-IO-002",
        "a directory that holds another run",
        "`--out` names a directory with events or checkpoints in it. Nothing is overwritten.",
        "sexpgpu run file.sx --out runs/first",
    ),
    Entry(
        "E-IO-003",
        "a directory in use",
        "Another process is training in this directory. Two writers would mix their histories.",
        "sexpgpu run file.sx --out runs/first & sexpgpu run file.sx --out runs/first --resume latest",
    ),
    Entry(
        "E-IO-004",
        "events that could not be written",
        "The run is over, its last checkpoint is on the disk, but `events.jsonl` lacks its last events: the disk "
        "is full or failed, or a file may not grow further. Checkpoints carry the events that waited when they "
        "were written: with room again, `--resume latest` puts those into the stream.",
        "ulimit -f 40; sexpgpu run file.sx",
    ),
    Entry(
        "W-IO-001",
        "events cannot be written",
        "The event stream has no room. Training goes on; the events wait in memory and go out when there is room. "
        "If there is none until the end the run ends with E-IO-004. Reported once a run.",
    ),
    Entry(
        "W-IO-002",
        "a cache that keeps nothing",
        "SEXPGPU_CACHE names a folder for compiled plans and modules, and nothing can be written there. The result is "
        "the same; it takes as long every time.",
        "SEXPGPU_CACHE=/proc/cache sexpgpu check file.sx",
    ),
    Entry(
        "W-IO-003",
        "measurements that cannot be read",
        "`choices.json` of the cache folder keeps what was measured on this machine's devices. It is no JSON object "
        "any more: what it held is measured again where it is needed, and the file is replaced then.",
        "echo '[' > ~/.cache/sexpgpu/choices.json; sexpgpu run file.sx --device cuda",
    ),
    Entry(
        "E-DEV-001",
        "an environment variable that means nothing",
        "A variable of ours has a value that it does not take. `sexpgpu doctor --env` lists all of them.",
        "SEXPGPU_DEVICE=gpu sexpgpu run file.sx",
    ),
    Entry(
        "E-DEV-010",
        "a package that is not installed",
        "Training needs few packages; `watch` and `lsp`, and the sources `parquet` and `bpe`, need one more each, GPUs "
        "those of `cuda`, and several GPUs those of `nccl`; each is an extra of sexpgpu's.",
        "sexpgpu watch file.sx",
    ),
)

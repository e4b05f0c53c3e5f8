"""The command line: verbs loaded when they are called, exit codes, and the last line of defence.

Standard output carries the answer, standard error everything else. Exit codes: 0 done, 1 the experiment or the run is
at fault, 2 wrong usage, 3 this machine cannot, 4 input or output that a retry may mend, 70 a fault of ours, 128 + n
signal n.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from sexpgpu import __version__

if TYPE_CHECKING:
    from sexpgpu.diag import Diagnostic

VERBS = {
    "check": "compile a file and report every mistake in it",
    "diff": "say what two experiments differ in",
    "doctor": "say whether a run can start on this machine",
    "eval": "print the value of every top-level form",
    "explain": "say what the compiler made of a file",
    "explain-code": "print the long form of a diagnostic code",
    "fmt": "lay out files in the one way",
    "generate": "run a generator of a checkpoint: texts, images",
    "ir": "print the experiment document or the MLIR module",
    "lsp": "serve an editor: diagnostics, types, definitions, completion",
    "new": "write a run file from a template or another one",
    "passes": "show what each pass of the compiler did, pass by pass",
    "reduce": "make a file smaller while it still fails in the same way",
    "run": "train",
    "variants": "list the knobs, variants and sweeps of a file",
    "watch": "check a file again on every save",
}


COMPILING = frozenset({"check", "diff", "eval", "explain", "generate", "ir", "lsp", "passes", "reduce", "run", "watch"})
"""The verbs that compile, and that keep what they compile or use what is kept."""


class Verbs(click.Group):
    """A group whose commands are imported when they are called: help needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = import_module(f"sexpgpu.cli.{name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from sexpgpu.diag import nearest

            near = nearest(args[0], VERBS)
            hint = f" Did you mean `{near}`?" if near else f" Verbs: {' '.join(VERBS)}."
            raise click.UsageError(f"there is no verb `{args[0]}`.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sexpgpu")
@click.pass_context
def cli(context: click.Context) -> None:
    """Compile and train experiments: one .sx file is one experiment.

    \b
    sexpgpu check examples/shakespeare.sx
    sexpgpu run examples/shakespeare.sx --variant smoke
    """
    if context.invoked_subcommand in COMPILING and not {"-h", "--help"} & set(sys.argv):
        from sexpgpu import knobs
        from sexpgpu.driver.entry import cache_warning

        knobs.require_sound()
        if knobs.says_of_devices():
            from sexpgpu.gpu.ranks import require_sense, settings

            require_sense(settings())
        told = cache_warning()
        if told is not None:
            from sexpgpu.cli.report import print_diagnostic

            print_diagnostic(told, {})


def main() -> None:
    """Run the command line; an exception that gets here is a fault of ours (70)."""
    code = guarded(cli, "sexpgpu")
    if not gc.isenabled():
        gc.freeze()  # a verb that does without collections is not to wait for the interpreter's last ones
    sys.exit(code)


def guarded(command: click.Command, program: str) -> int:
    """Run `command` and give its exit code."""
    from sexpgpu.diag import SxError

    try:
        code = command.main(prog_name=program, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as fault:
        from sexpgpu.diag import Diagnostic

        fault.show()
        _print_failure(Diagnostic("E-USE-001", fault.format_message()), program)
        _stay_out(Diagnostic("E-USE-001", fault.format_message()))
        return fault.exit_code
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # Whoever read the answer has gone; closing standard output again at exit would only complain.
        sys.stderr.close()
        return 0
    except SxError as fault:
        from sexpgpu.cli.report import print_diagnostic

        print_diagnostic(fault.diagnostic, {})
        _print_failure(fault.diagnostic, program)
        _stay_out(fault.diagnostic)
        return exit_code(fault.diagnostic.code)
    except OSError as fault:
        # Most files that the product reads and writes have errors of their own; what is left is, above all, a stream.
        told = _told(fault)
        sys.stderr.write(told + "\n")
        return 4
    except Exception as fault:
        import traceback

        traceback.print_exc()
        told = f"{program}: this is a fault of sexpgpu, not of your file; please report the lines above with the file"
        click.echo(told + (_reduced(fault) if program == "sexpgpu" else ""), err=True)
        return 70


def _print_failure(diagnostic: Diagnostic, program: str) -> None:
    """The document of a verb that came to nothing, for whoever asked for one: the verb itself never printed it."""
    asked = sys.argv[1:]
    if "--json" not in asked:
        return
    from sexpgpu.cli.report import print_json
    from sexpgpu.diag import to_json

    verb = _verb() if program == "sexpgpu" else program
    print_json({"verb": verb, "ok": False, "diagnostics": [to_json(diagnostic, {})]})


def _stay_out(diagnostic: Diagnostic) -> None:
    """Of a run of several machines, one that is not going to begin: the others are told."""
    from sexpgpu import knobs

    if _verb() == "run" and knobs.says_of_devices():
        from sexpgpu.driver.devices import stay_out

        stay_out(diagnostic)


def _verb() -> str | None:
    return next((word for word in sys.argv[1:] if word in VERBS), None)


def _reduced(fault: Exception) -> str:
    """How the file becomes small. `reduce` itself can only compile; what fails later it has to be shown."""
    import traceback

    frames = [
        (frame.f_globals.get("__name__"), frame.f_code.co_name) for frame, _ in traceback.walk_tb(fault.__traceback__)
    ]
    compiling = any(
        module == "sexpgpu.driver.pipeline"
        or (module == "sexpgpu.driver.compile" and function in ("trace_in", "finish"))
        for module, function in frames
    )
    if compiling:
        return " (`sexpgpu reduce FILE --internal` makes it small)"
    return (
        " (`sexpgpu reduce FILE --command CMD` makes it small, where CMD succeeds as long as the file fails like this)"
    )


def _told(fault: OSError) -> str:
    """E-IO-106 with the file at fault, or standard output, and the system's reason."""
    from sexpgpu.diag import Diagnostic, render

    what = "standard output" if fault.filename is None else str(fault.filename)
    reason = fault.strerror or type(fault).__name__
    return render(Diagnostic("E-IO-106", f"{what} cannot be written", actual=reason), {})


def exit_code(code: str) -> int:
    """The exit code of a diagnostic: 3 where this machine cannot, 4 where a retry may mend it, else 1."""
    if code.startswith("E-DEV"):
        return 3
    return 4 if code in ("E-IO-105", "E-IO-106") else 1

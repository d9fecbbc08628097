"""The commands of ``rushlight``: one module each, found by its name, imported when it is used.

A module ``_commands/name.py`` is the command ``rushlight name`` (``_`` is written ``-``). It has

- a docstring, whose first paragraph is the command's help; its first line stands in the list;
- ``EXAMPLES``: pairs of a command line and what it does, shown by ``--help``;
- ``add_arguments(parser)``: the options, by argparse; optional;
- ``run(arguments) -> int``: does the work and returns the exit status;
- ``PROGRAM = True`` when what follows the options is a program with arguments of its own
  (``script.py ...``, ``-m module ...``, ``-``): ``arguments.program`` is then that list.

What is slow to import is imported by ``run``: the list of commands reads every module.
"""

"""The public names for commands, both ours and those of other distributions.

Each name is imported when it is first used. Names that are not listed may change in any release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput_cli.kit.asking import confirm as confirm
    from reput_cli.kit.completing import stored_topics as stored_topics
    from reput_cli.kit.ending import Ending as Ending
    from reput_cli.kit.escape import escape_text as escape_text
    from reput_cli.kit.exitcodes import ExitCode as ExitCode
    from reput_cli.kit.failures import Failure as Failure
    from reput_cli.kit.failures import warn as warn
    from reput_cli.kit.loglines import show_log_lines as show_log_lines
    from reput_cli.kit.opening import follows_links as follows_links
    from reput_cli.kit.opening import is_written as is_written
    from reput_cli.kit.opening import open_to_read as open_to_read
    from reput_cli.kit.opening import open_to_write as open_to_write
    from reput_cli.kit.options import CheckedPath as CheckedPath
    from reput_cli.kit.options import follow_links_option as follow_links_option
    from reput_cli.kit.options import jobs_option as jobs_option
    from reput_cli.kit.options import json_option as json_option
    from reput_cli.kit.options import path_argument as path_argument
    from reput_cli.kit.options import read_set_options as read_set_options
    from reput_cli.kit.options import read_time as read_time
    from reput_cli.kit.options import with_debug as with_debug
    from reput_cli.kit.output import Column as Column
    from reput_cli.kit.output import format_count as format_count
    from reput_cli.kit.output import format_rate as format_rate
    from reput_cli.kit.output import format_size as format_size
    from reput_cli.kit.output import json_line as json_line
    from reput_cli.kit.output import print_facts as print_facts
    from reput_cli.kit.output import print_heading as print_heading
    from reput_cli.kit.output import print_json as print_json
    from reput_cli.kit.output import print_table as print_table
    from reput_cli.kit.output import styled as styled
    from reput_cli.kit.progressbar import ProgressBar as ProgressBar
    from reput_cli.kit.quantities import read_duration as read_duration
    from reput_cli.kit.quantities import read_size as read_size
    from reput_cli.kit.rebuilt import print_built as print_built
    from reput_cli.kit.rebuilt import print_rebuilt as print_rebuilt
    from reput_cli.kit.rows import print_rows as print_rows
    from reput_cli.kit.rows import rows_options as rows_options
    from reput_cli.kit.storeplugins import check_store as check_store
    from reput_cli.kit.storeplugins import check_used as check_used
    from reput_cli.kit.storeplugins import open_with_plugin as open_with_plugin
    from reput_cli.kit.storeplugins import used_plugins as used_plugins
    from reput_cli.kit.suggesting import did_you_mean as did_you_mean
    from reput_cli.kit.times import format_duration as format_duration
    from reput_cli.kit.times import format_timestamp as format_timestamp
    from reput_cli.kit.times import parse_start as parse_start
    from reput_cli.kit.topics import known_topics as known_topics
    from reput_cli.kit.topics import no_topic as no_topic

_HOMES = {
    "CheckedPath": "options",
    "Column": "output",
    "Ending": "ending",
    "ExitCode": "exitcodes",
    "Failure": "failures",
    "ProgressBar": "progressbar",
    "check_store": "storeplugins",
    "check_used": "storeplugins",
    "confirm": "asking",
    "did_you_mean": "suggesting",
    "escape_text": "escape",
    "follow_links_option": "options",
    "follows_links": "opening",
    "format_count": "output",
    "format_duration": "times",
    "format_rate": "output",
    "format_size": "output",
    "format_timestamp": "times",
    "is_written": "opening",
    "jobs_option": "options",
    "json_line": "output",
    "json_option": "options",
    "known_topics": "topics",
    "no_topic": "topics",
    "open_to_read": "opening",
    "open_to_write": "opening",
    "open_with_plugin": "storeplugins",
    "parse_start": "times",
    "path_argument": "options",
    "print_built": "rebuilt",
    "print_facts": "output",
    "print_heading": "output",
    "print_json": "output",
    "print_rebuilt": "rebuilt",
    "print_rows": "rows",
    "print_table": "output",
    "read_duration": "quantities",
    "read_size": "quantities",
    "read_set_options": "options",
    "read_time": "options",
    "rows_options": "rows",
    "show_log_lines": "loglines",
    "stored_topics": "completing",
    "styled": "output",
    "used_plugins": "storeplugins",
    "warn": "failures",
    "with_debug": "options",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # so that mypy reports a name that is not listed
    __getattr__, __dir__ = door(__name__, _HOMES)

"""The public names for commands, both ours and those of other distributions.

Each name is imported when it is first used. Names that are not listed may change in any release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_tools.cli.kit.completion import stored_topics as stored_topics
    from reput_tools.cli.kit.confirmation import confirm as confirm
    from reput_tools.cli.kit.escape import escape_text as escape_text
    from reput_tools.cli.kit.exitcodes import ExitCode as ExitCode
    from reput_tools.cli.kit.failures import Failure as Failure
    from reput_tools.cli.kit.failures import warn as warn
    from reput_tools.cli.kit.gracefulstop import GracefulStop as GracefulStop
    from reput_tools.cli.kit.jsonkeys import STORE_KEYS as STORE_KEYS
    from reput_tools.cli.kit.jsonkeys import below as below
    from reput_tools.cli.kit.jsonkeys import json_option as json_option
    from reput_tools.cli.kit.knowntopics import check_topics as check_topics
    from reput_tools.cli.kit.knowntopics import known_topics as known_topics
    from reput_tools.cli.kit.knowntopics import no_topic as no_topic
    from reput_tools.cli.kit.logoutput import show_log_lines as show_log_lines
    from reput_tools.cli.kit.options import CheckedPath as CheckedPath
    from reput_tools.cli.kit.options import follow_links_option as follow_links_option
    from reput_tools.cli.kit.options import jobs_option as jobs_option
    from reput_tools.cli.kit.options import path_argument as path_argument
    from reput_tools.cli.kit.options import read_set_options as read_set_options
    from reput_tools.cli.kit.options import read_time as read_time
    from reput_tools.cli.kit.options import with_debug as with_debug
    from reput_tools.cli.kit.output import Column as Column
    from reput_tools.cli.kit.output import format_count as format_count
    from reput_tools.cli.kit.output import format_rate as format_rate
    from reput_tools.cli.kit.output import format_size as format_size
    from reput_tools.cli.kit.output import json_line as json_line
    from reput_tools.cli.kit.output import name_column as name_column
    from reput_tools.cli.kit.output import print_facts as print_facts
    from reput_tools.cli.kit.output import print_heading as print_heading
    from reput_tools.cli.kit.output import print_json as print_json
    from reput_tools.cli.kit.output import print_table as print_table
    from reput_tools.cli.kit.output import print_text as print_text
    from reput_tools.cli.kit.output import styled as styled
    from reput_tools.cli.kit.progressbar import ProgressBar as ProgressBar
    from reput_tools.cli.kit.queryrows import FORMS as FORMS
    from reput_tools.cli.kit.queryrows import print_rows as print_rows
    from reput_tools.cli.kit.queryrows import rows_options as rows_options
    from reput_tools.cli.kit.rebuildresult import print_built as print_built
    from reput_tools.cli.kit.rebuildresult import print_rebuilt as print_rebuilt
    from reput_tools.cli.kit.statechange import change_plugin as change_plugin
    from reput_tools.cli.kit.storeopening import follows_links as follows_links
    from reput_tools.cli.kit.storeopening import is_written as is_written
    from reput_tools.cli.kit.storeopening import open_to_read as open_to_read
    from reput_tools.cli.kit.storeopening import open_to_write as open_to_write
    from reput_tools.cli.kit.storeplugins import check_store as check_store
    from reput_tools.cli.kit.storeplugins import check_used as check_used
    from reput_tools.cli.kit.storeplugins import open_with_plugin as open_with_plugin
    from reput_tools.cli.kit.storeplugins import used_plugins as used_plugins
    from reput_tools.cli.kit.suggestions import did_you_mean as did_you_mean
    from reput_tools.cli.kit.timestamps import format_duration as format_duration
    from reput_tools.cli.kit.timestamps import format_timestamp as format_timestamp
    from reput_tools.cli.kit.timestamps import parse_start as parse_start
    from reput_tools.cli.kit.units import Seconds as Seconds
    from reput_tools.cli.kit.units import read_duration as read_duration
    from reput_tools.cli.kit.units import read_size as read_size
else:
    __getattr__, __dir__ = lazy_exports(__name__)

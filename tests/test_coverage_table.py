"""docs/coverage.md says what is so, and has no gaps."""

import pytest

import coverage_table
from registry import ENTRIES, path

pytestmark = pytest.mark.skipif(
    not coverage_table.PAGE.parent.exists(), reason="needs the source tree"
)


@pytest.fixture(scope="module")
def table():
    return list(coverage_table.rows())


def test_no_transform_is_missing(table):
    assert coverage_table.missing(table) == []


def test_every_public_op_has_a_row(table):
    assert {path(e) for e in ENTRIES if e["forms"]} <= {name for name, _ in table}


def test_the_page_is_up_to_date(table):
    written = coverage_table.PAGE.read_text(encoding="utf-8")
    assert written == coverage_table.page(table), "run: python tests/coverage_table.py"

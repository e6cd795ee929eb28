"""What the table of transactions knows of groups that are about to move."""

from __future__ import annotations

from goqueue.core.txn.records import TxnOffset, TxnStage, TxnState
from goqueue.core.txn.table import TransactionTable


class CountedName(str):
    """Says how often it was looked up."""

    looked_up = 0

    def __hash__(self) -> int:
        CountedName.looked_up += 1
        return super().__hash__()


def test_a_change_of_one_transaction_looks_at_no_group_of_the_others() -> None:
    """Every record of every transaction is applied to the table, while thousands of others may move groups."""
    table = TransactionTable()
    for number in range(1_000):
        offset = TxnOffset(CountedName(f"g{number}"), "t", 0, 5)
        table.apply(TxnState(f"p{number}", number, 0, TxnStage.ONGOING, offsets=(offset,)))
    CountedName.looked_up = 0
    table.apply(TxnState("mine", 1_000, 0, TxnStage.ONGOING))
    table.apply(TxnState("mine", 1_000, 0, TxnStage.ONGOING, partitions=(("t", 0),)))
    assert CountedName.looked_up == 0
    assert list(table.moving("g7")) == [("t", 0)]
    table.apply(TxnState("p7", 7, 0, TxnStage.COMPLETE_COMMIT))
    assert list(table.moving("g7")) == [] and list(table.moving("g8")) == [("t", 0)]

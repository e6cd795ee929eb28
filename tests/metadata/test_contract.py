"""What every form of the metadata store has to do. A new form is added to `forms.py` and has to pass all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from goqueue.base.errors import InvalidName, MetadataConflict, MetadataTooLarge, SessionLost
from goqueue.base.limits import METADATA_COMMIT_KEYS_MAX, METADATA_HISTORY_MAX, METADATA_VALUE_CHARS_MAX
from goqueue.base.metadata import ABSENT, Change, Commit, Metadata, WatchedTooLate
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.etcd import etcd_members
from tests.metadata.forms import FORMS, Form, form_of

Scenario = Callable[[Form], Awaitable[None]]
LONGEST = "topics/" + "n" * 249


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with etcd_members(tmp_path_factory.mktemp("etcd")) as (member,):
        yield member.client


@pytest.fixture(params=FORMS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Scenario], None]:
    """On a virtual loop, but for etcd, which is another process."""
    member = request.getfixturevalue("etcd") if request.param == "etcd" else ""

    def run_on_form(scenario: Scenario) -> None:
        async def main(loop: VirtualLoop | None = None) -> None:
            await scenario(form_of(request.param, tmp_path, member))

        if member:
            uvloop.run(main())
        else:
            run_virtually(main)

    return run_on_form


async def values(store: Metadata) -> dict[str, str]:
    return {key: entry.value for key, entry in (await store.read()).entries.items()}


async def take(store: Metadata, after: int, count: int) -> list[Change]:
    found: list[Change] = []
    async for change in store.watch(after):
        found.append(change)
        if len(found) == count:
            return found
    raise AssertionError("the watch ended")


def test_a_new_store_is_empty(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        assert await values(await form.open()) == {}

    run(scenario)


def test_what_was_committed_is_read_by_the_next_who_opens_it(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        await store.commit(Commit({"topics/a": "1", "topics/b.c_d-E": "2", "slots": 'text "\n\x00é'}))
        await store.commit(Commit({"topics/a": "3"}, ["topics/b.c_d-E"]))
        await store.commit(Commit({LONGEST: "4"}))
        await store.close()
        again = await form.open()
        assert await values(again) == {"topics/a": "3", "slots": 'text "\n\x00é', LONGEST: "4"}

    run(scenario)


def test_revisions_grow_and_are_kept_with_the_keys(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        first = await store.commit(Commit({"shards/0": "a", "shards/1": "a"}))
        second = await store.commit(Commit({"shards/0": "b"}))
        assert second > first
        found = await store.read()
        assert found.revision == second
        assert (found.entries["shards/0"].created, found.entries["shards/0"].modified) == (first, second)
        assert (found.entries["shards/1"].created, found.entries["shards/1"].modified) == (first, first)
        await store.close()
        again = await form.open()
        found = await again.read()
        assert (found.entries["shards/0"].created, found.entries["shards/0"].modified) == (first, second)
        assert await again.commit(Commit({"shards/2": "c"})) > second

    run(scenario)


def test_a_revision_never_comes_again_even_if_its_key_is_gone(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        await store.commit(Commit({"slots": "1"}))
        last = await store.commit(Commit(deletes=["slots"]))
        await store.close()
        assert await (await form.open()).commit(Commit({"slots": "2"})) > last

    run(scenario)


def test_a_key_that_was_deleted_and_made_again_has_another_making(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        first = await store.commit(Commit({"controller": "a"}))
        await store.commit(Commit(deletes=["controller"]))
        second = await store.commit(Commit({"controller": "b"}))
        with pytest.raises(MetadataConflict):
            await store.commit(Commit({"shards/0": "by the deposed"}, created={"controller": first}))
        await store.commit(Commit({"shards/0": "by the elected"}, created={"controller": second}))
        assert (await values(store))["shards/0"] == "by the elected"

    run(scenario)


def test_a_commit_whose_expectation_fails_changes_nothing(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        first = await store.commit(Commit({"shards/0": "a", "shards/1": "a"}))
        await store.commit(Commit({"shards/1": "b"}))
        before = await store.read()
        for modified in ({"shards/0": ABSENT}, {"shards/0": first, "shards/1": first}, {"shards/9": first}):
            with pytest.raises(MetadataConflict):
                await store.commit(Commit({"shards/0": "c", "shards/2": "c"}, ["shards/1"], modified))
        assert await store.read() == before
        await store.commit(Commit({"shards/2": "new"}, modified={"shards/2": ABSENT, "shards/0": first}))
        assert (await values(store))["shards/2"] == "new"

    run(scenario)


def test_of_two_who_expect_the_same_one_wins(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        asked = [store.commit(Commit({"controller": str(n)}, modified={"controller": ABSENT})) for n in range(5)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(one, int) for one in outcomes) == 1
        assert sum(isinstance(one, MetadataConflict) for one in outcomes) == 4

    run(scenario)


def test_deleting_what_is_not_there_is_no_error(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        await store.commit(Commit(deletes=["topics/none"]))
        await store.commit(Commit({"slots": "1"}, ["topics/none", "topics/other"]))
        assert await values(store) == {"slots": "1"}

    run(scenario)


@pytest.mark.parametrize("key", ["", "/", "topics/", "topics/..", "topics/.", "../x", "topics/a/b", "Topics/a", "a b"])
def test_a_key_that_is_none_is_refused(run: Callable[[Scenario], None], key: str) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        for commit in (Commit({key: ""}), Commit(deletes=[key])):
            with pytest.raises(InvalidName):
                await store.commit(commit)

    run(scenario)


def test_too_much_at_once_is_refused(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        many = {f"topics/{number}": "" for number in range(METADATA_COMMIT_KEYS_MAX + 1)}
        for puts in (many, {"slots": "x" * (METADATA_VALUE_CHARS_MAX + 1)}):
            with pytest.raises(MetadataTooLarge):
                await store.commit(Commit(puts))
        assert await values(store) == {}
        many.popitem()
        await store.commit(Commit(many))
        assert await values(store) == many

    run(scenario)


# --- watches --------------------------------------------------------------------------------------------


def test_a_watch_is_told_every_change_once_in_order(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        begin = (await store.read()).revision
        early = asyncio.create_task(take(store, begin, 3))
        await asyncio.sleep(0)
        revisions = [
            await store.commit(Commit({"topics/a": "1", "topics/b": "1"})),
            await store.commit(Commit({"topics/a": "2"}, ["topics/b"])),
            await store.commit(Commit(deletes=["topics/a"])),
        ]
        for changes in (await early, await take(store, begin, 3)):
            assert [change.revision for change in changes] == revisions
            assert [[(one.key, one.value) for one in change.puts] for change in changes] == [
                [("topics/a", "1"), ("topics/b", "1")],
                [("topics/a", "2")],
                [],
            ]
            assert [list(change.deletes) for change in changes] == [[], ["topics/b"], ["topics/a"]]

    run(scenario)


def test_a_watch_begins_behind_the_revision_it_names(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        first = await store.commit(Commit({"slots": "1"}))
        second = await store.commit(Commit({"slots": "2"}))
        assert [change.revision for change in await take(store, first, 1)] == [second]
        waits = asyncio.create_task(take(store, second, 1))
        await asyncio.sleep(1)
        assert not waits.done()
        third = await store.commit(Commit({"slots": "3"}))
        assert [change.revision for change in await waits] == [third]

    run(scenario)


def test_reading_and_then_watching_from_there_misses_nothing(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()

        async def write() -> None:
            for number in range(50):
                await store.commit(Commit({f"topics/{number % 7}": str(number)}, [f"topics/{(number + 3) % 7}"]))

        writing = asyncio.create_task(write())
        for _ in range(20):
            await asyncio.sleep(0)
        found = await store.read()
        image = {key: entry.value for key, entry in found.entries.items()}
        await writing
        end = (await store.read()).revision
        async for change in store.watch(found.revision):
            for key in change.deletes:
                image.pop(key, None)
            image |= {entry.key: entry.value for entry in change.puts}
            if change.revision >= end:
                break
        assert image == await values(store)

    run(scenario)


def test_who_watches_from_too_far_back_is_told_to_read_again(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        begin = (await store.read()).revision
        first = await store.commit(Commit({"slots": "first"}))
        for number in range(METADATA_HISTORY_MAX):
            await store.commit(Commit({"slots": str(number)}))
        await form.forget(first + 1)
        with pytest.raises(WatchedTooLate):
            await take(store, begin, 1)
        assert len(await take(store, first, METADATA_HISTORY_MAX)) == METADATA_HISTORY_MAX

    run(scenario)


def test_closing_ends_a_watch(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        begin = (await store.read()).revision

        async def follow() -> int:
            return len([change async for change in store.watch(begin)])

        following = asyncio.create_task(follow())
        await store.commit(Commit({"slots": "1"}))
        await asyncio.sleep(1)
        await store.close()
        assert await following == 1

    run(scenario)


# --- sessions -------------------------------------------------------------------------------------------


def test_keys_of_a_session_end_with_it_in_one_change(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        session = await store.open_session()
        other = await store.open_session()
        await store.commit(Commit({"nodes/1": "me", "controller": "me"}, session=session.id))
        await store.commit(Commit({"nodes/2": "other"}, session=other.id))
        begin = await store.commit(Commit({"shards/0": "stays"}))
        lost = [session.is_lost]
        await session.end()
        lost += [session.is_lost, other.is_lost]
        assert lost == [False, True, False]
        assert await values(store) == {"nodes/2": "other", "shards/0": "stays"}
        (change,) = await take(store, begin, 1)
        assert sorted(change.deletes) == ["controller", "nodes/1"] and not change.puts

    run(scenario)


def test_the_session_of_who_closes_is_over_and_so_are_its_keys(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        session = await store.open_session()
        await store.commit(Commit({"nodes/1": "me"}, session=session.id))
        await store.commit(Commit({"shards/0": "stays"}))
        await store.close()
        assert await values(await form.open()) == {"shards/0": "stays"}

    run(scenario)


def test_a_commit_in_a_session_that_is_over_does_nothing(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        session = await store.open_session()
        await session.end()
        with pytest.raises(SessionLost):
            await store.commit(Commit({"nodes/1": "me"}, session=session.id))
        assert await values(store) == {}

    run(scenario)


def test_a_key_leaves_its_session_when_somebody_else_writes_it(run: Callable[[Scenario], None]) -> None:
    async def scenario(form: Form) -> None:
        store = await form.open()
        session = await store.open_session()
        await store.commit(Commit({"controller": "bound", "slots": "bound"}, session=session.id))
        await store.commit(Commit({"controller": "free"}))
        await store.commit(Commit({"shards/0": "durable"}))
        await store.commit(Commit({"shards/0": "bound"}, session=session.id))
        await session.end()
        assert await values(store) == {"controller": "free"}
        await store.close()
        assert await values(await form.open()) == {"controller": "free"}

    run(scenario)

"""Files that moved: each row is counted once, as a set of rows in Python says, or the file is refused."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from vestige import KeyedStreams, Mean, MemoryStore, SqliteStore, Stream
from vestige.errors import SourceError
from vestige.ingest import Ingest, StreamNames
from vestige.sources import FileSource
from vestige.sources.listing import list_files
from vestige.sources.protocol import IfMoved
from vestige.store import Store

HEADER = "spent,key,id\n"


class Shop:
    """A project with exports, a store, and the rows that a plain set in Python has seen."""

    def __init__(self, folder: Path, by: bool) -> None:
        self.home, self.by, self.seen, self.said = folder / "shop", by, set[str](), list[str]()
        self.memory, self.file = MemoryStore(), folder / "shop.db"
        self.next, self.is_constant = 100_000, False
        (self.home / "exports").mkdir(parents=True)

    def make(self, n: int) -> list[str]:
        """Rows that no file had before, each of the same length."""
        first, self.next = self.next, self.next + n
        spent = (500_000 if self.is_constant else first + 7 * i % n for i in range(n))
        return [f"{value},k{i % 2},{first + i}\n" for i, value in enumerate(spent)]

    def write(self, name: str, rows: list[str]) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        opener = gzip.open if name.endswith(".gz") else open
        with opener(path, "wt") as file:
            file.write(HEADER + "".join(rows))
        return path

    def append(self, name: str, n: int) -> None:
        with (self.home / name).open("a") as file:
            file.writelines(self.make(n))

    def begin(self, *names: str, n: int = 200) -> None:
        for name in names or ("exports/visits.csv",):
            self.write(name, self.make(n))
        self.goes_on(*names or ["exports"])

    def forget(self) -> None:
        """Have so many other rows arrive that none of those before is held, from a file that has other columns."""
        rows = [f"{i},k{i % 2}\n" for i in range(600)]
        path = self.home.parent / "others.csv"
        path.write_text("spent,key\n" + "".join(rows))
        assert self.read([str(path)], "refuse") == 600

    def read(self, paths: list[str], if_moved: IfMoved) -> int:
        with SqliteStore(self.file) if self.by else nullcontext(self.memory) as store:
            return self.ingest(store, list_files(paths), if_moved)

    def ingest(self, store: Store, paths: tuple[str, ...], if_moved: IfMoved) -> int:
        key = "key" if self.by else None
        sources = [FileSource(path, ["spent"], by=key, growing=True) for path in paths]

        def open_stream(name: str) -> Stream:
            return Stream(Mean(), retention=64, seed=1, store=store.stream(name))

        streams = KeyedStreams(Mean(), retention=64, seed=1, store=store.family()) if self.by else open_stream
        run = Ingest(sources[0], streams, StreamNames(key), store, warn=self.said.append, if_moved=if_moved)
        run.settle_moves(sources)
        for source in sources:
            run.follow(source)
            run.run()
        return run.taken

    def goes_on(self, *names: str, if_moved: IfMoved = "refuse") -> None:
        paths = [str(self.home / name) for name in names]
        rows = set[str]()
        for path in map(Path, list_files(paths)):
            packed = path.read_bytes()
            text = gzip.decompress(packed) if path.suffix == ".gz" else packed
            rows.update(text.decode().splitlines()[1:])
        assert self.read(paths, if_moved) == len(rows - self.seen)
        self.seen |= rows
        assert self.read(paths, "refuse") == 0, "and again nothing is new"

    def refuses(self, *names: str, text: str = "--if-moved", if_moved: IfMoved = "refuse") -> None:
        with pytest.raises(SourceError, match=text) as caught:
            self.read([str(self.home / name) for name in names], if_moved)
        assert str(caught.value).endswith("nothing was taken")

    def move(self, before: str, after: str) -> Path:
        (self.home / after).parent.mkdir(parents=True, exist_ok=True)
        return (self.home / before).rename(self.home / after)

    def copy(self, before: str, after: str) -> None:
        (self.home / after).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.home / before, self.home / after)

    def delete(self, name: str) -> None:
        (self.home / name).unlink()


def move_project(shop: Shop) -> None:
    shop.begin()
    shop.home = shop.home.rename(shop.home.with_name("moved"))
    shop.goes_on("exports")
    assert any("was read before as" in text for text in shop.said)
    shop.append("exports/visits.csv", 30)
    shop.goes_on("exports")


def move_project_that_has_grown(shop: Shop) -> None:
    shop.begin()
    shop.append("exports/visits.csv", 30)
    shop.home = shop.home.rename(shop.home.with_name("moved"))
    shop.goes_on("exports")


def copy_project(shop: Shop) -> None:
    shop.begin()
    shop.home = Path(shutil.copytree(shop.home, shop.home.with_name("copy")))
    shop.goes_on("exports")


def copy_project_that_has_grown(shop: Shop) -> None:
    copy_project(shop)
    shop.home = Path(shutil.copytree(shop.home, shop.home.with_name("again")))
    shop.append("exports/visits.csv", 30)
    shop.goes_on("exports")


def copy_project_of_which_nothing_is_held(shop: Shop) -> None:
    shop.begin()
    shop.forget()
    shop.home = Path(shutil.copytree(shop.home, shop.home.with_name("copy")))
    shop.refuses("exports")
    shop.goes_on("exports", if_moved="same")


def copy_project_and_delete_it(shop: Shop) -> None:
    shop.begin("exports/a.csv", "exports/b.csv")
    before = shop.home
    shop.home = Path(shutil.copytree(before, before.with_name("copy")))
    shutil.rmtree(before)
    shop.goes_on("exports")


def rename_folder(shop: Shop) -> None:
    shop.begin()
    shop.move("exports", "files")
    shop.goes_on("files")


def rename_folder_with_new_rows_and_a_new_file(shop: Shop) -> None:
    shop.begin()
    shop.move("exports", "files")
    shop.append("files/visits.csv", 10)
    shop.write("files/visits-2.csv", shop.make(40))
    shop.goes_on("files")


def rename_folder_of_which_one_file_is_held(shop: Shop) -> None:
    shop.begin(*(f"exports/visits-{day}.csv" for day in range(5)), n=300)
    shop.move("exports", "files")
    shop.goes_on("files")


def rename_folder_of_which_nothing_is_held(shop: Shop) -> None:
    shop.begin()
    shop.forget()
    shop.move("exports", "files")
    shop.refuses("files", text="no row of that one is held")
    shop.goes_on("files", if_moved="same")


def rename_folder_that_has_grown_of_which_nothing_is_held(shop: Shop) -> None:
    shop.begin()
    shop.forget()
    shop.move("exports", "files")
    shop.append("files/visits.csv", 10)
    shop.refuses("files")
    shop.goes_on("files", if_moved="same")


def rename_file(shop: Shop) -> None:
    shop.begin()
    shop.move("exports/visits.csv", "exports/visits-of-may.csv")
    shop.goes_on("exports")


def rename_file_that_has_grown(shop: Shop) -> None:
    shop.begin()
    shop.move("exports/visits.csv", "exports/visits-of-may.csv")
    shop.append("exports/visits-of-may.csv", 20)
    shop.goes_on("exports")


def rename_file_of_which_nothing_is_held(shop: Shop) -> None:
    shop.begin()
    shop.forget()
    shop.move("exports/visits.csv", "exports/visits-of-may.csv")
    shop.refuses("exports")
    shop.goes_on("exports", if_moved="same")


def copy_file_under_another_name_and_delete_it(shop: Shop) -> None:
    shop.begin()
    shop.copy("exports/visits.csv", "exports/visits-of-may.csv")
    shop.delete("exports/visits.csv")
    shop.goes_on("exports")


def copy_file_beside_itself(shop: Shop) -> None:
    shop.begin()
    shop.copy("exports/visits.csv", "exports/visits (copy).csv")
    shop.refuses("exports", text="is a copy of")
    shop.refuses("exports", text="is a copy of", if_moved="same")


def copy_file_beside_itself_of_which_nothing_is_held(shop: Shop) -> None:
    shop.begin()
    shop.forget()
    shop.copy("exports/visits.csv", "exports/visits (copy).csv")
    shop.refuses("exports", text="is a copy of")
    shop.delete("exports/visits (copy).csv")
    shop.goes_on("exports")


def pack_file_and_keep_it(shop: Shop) -> None:
    shop.begin()
    packed = shop.home / "exports/visits.csv.gz"
    packed.write_bytes(gzip.compress((shop.home / "exports/visits.csv").read_bytes()))
    shop.refuses("exports", text="is a copy of")
    shop.forget()
    shop.refuses("exports", text="is a copy of")
    shop.delete("exports/visits.csv.gz")
    shop.goes_on("exports")


def export_plain_and_packed(shop: Shop) -> None:
    shop.write("exports/visits.csv", shop.make(3))
    packed = shop.home / "exports/visits.csv.gz"
    packed.write_bytes(gzip.compress((shop.home / "exports/visits.csv").read_bytes()))
    shop.refuses("exports", text="both are read")
    shop.delete("exports/visits.csv.gz")
    shop.goes_on("exports")
    packed.write_bytes(gzip.compress((shop.home / "exports/visits.csv").read_bytes()))
    shop.refuses("exports", text="is a copy of")
    packed.write_bytes(gzip.compress(b"spent,key\n" + b"7,k1\n" * 9))
    assert shop.read([str(shop.home / "exports")], "new") == 9


def export_all_rows_and_more_beside_them(shop: Shop) -> None:
    shop.begin("exports/1/visits.csv")
    shop.copy("exports/1/visits.csv", "exports/2/visits.csv")
    shop.append("exports/2/visits.csv", 30)
    shop.refuses("exports/1", "exports/2", text="or has all its rows")


def move_file_and_copy_it_too(shop: Shop) -> None:
    shop.begin()
    shop.move("exports/visits.csv", "exports/new/visits.csv")
    shop.copy("exports/new/visits.csv", "exports/old/visits.csv")
    shop.refuses("exports/new", "exports/old", text="is a copy of")
    shop.goes_on("exports/new")


def swap_two_files(shop: Shop) -> None:
    shop.begin("exports/a.csv", "exports/b.csv", n=20)
    shop.move("exports/a.csv", "c")
    shop.move("exports/b.csv", "exports/a.csv")
    shop.move("c", "exports/b.csv")
    shop.goes_on("exports")
    shop.append("exports/a.csv", 5)
    shop.append("exports/b.csv", 6)
    shop.goes_on("exports")


def move_file_away_and_back(shop: Shop) -> None:
    shop.begin()
    shop.move("exports/visits.csv", "elsewhere/visits.csv")
    shop.goes_on("elsewhere")
    shop.move("elsewhere/visits.csv", "exports/visits.csv")
    shop.goes_on("exports")


def move_file_and_put_another_in_its_place(shop: Shop) -> None:
    shop.begin()
    shop.move("exports/visits.csv", "elsewhere/visits.csv")
    shop.write("exports/visits.csv", shop.make(50))
    shop.goes_on("elsewhere", "exports")


def pack_file_in_its_place(shop: Shop) -> None:
    shop.begin()
    text = (shop.home / "exports/visits.csv").read_text().removeprefix(HEADER)
    shop.write("exports/visits.csv.gz", text.splitlines(keepends=True))
    shop.delete("exports/visits.csv")
    shop.goes_on("exports")


def pack_file_of_which_nothing_is_held(shop: Shop) -> None:
    shop.begin("exports/visits.csv", "exports/visits-2.csv")
    shop.forget()
    text = (shop.home / "exports/visits.csv").read_text().removeprefix(HEADER)
    shop.write("exports/visits.csv.gz", text.splitlines(keepends=True))
    shop.delete("exports/visits.csv")
    shop.refuses("exports")
    shop.goes_on("exports", if_moved="same")


def rotate(shop: Shop) -> None:
    shop.begin("exports/visits.csv", n=60)
    for _ in range(5):
        for number in (3, 2, 1):
            if (shop.home / f"exports/visits.csv.{number}").exists():
                shop.move(f"exports/visits.csv.{number}", f"exports/visits.csv.{number + 1}")
        shop.move("exports/visits.csv", "exports/visits.csv.1")
        shop.append("exports/visits.csv.1", 3)
        shop.write("exports/visits.csv", shop.make(60))
        shop.goes_on("exports/visits.csv*")


def rotate_by_copy(shop: Shop) -> None:
    shop.begin("exports/visits.csv", n=20)
    shop.copy("exports/visits.csv", "exports/visits.csv.1")
    shop.write("exports/visits.csv", shop.make(10))
    shop.goes_on("exports/visits.csv*")


def rotate_and_pack(shop: Shop) -> None:
    shop.begin("exports/visits.csv", n=20)
    text = (shop.home / "exports/visits.csv").read_text().removeprefix(HEADER)
    shop.write("exports/visits.csv.1.gz", text.splitlines(keepends=True))
    shop.delete("exports/visits.csv")
    shop.write("exports/visits.csv", shop.make(25))
    shop.goes_on("exports/visits.csv*")


def rotate_and_pack_what_is_not_held(shop: Shop) -> None:
    shop.begin("exports/visits.csv", "exports/visits.csv.1")
    shop.forget()
    text = (shop.home / "exports/visits.csv.1").read_text().removeprefix(HEADER)
    shop.write("exports/visits.csv.2.gz", text.splitlines(keepends=True))
    shop.delete("exports/visits.csv.1")
    shop.refuses("exports/visits.csv*")
    shop.goes_on("exports/visits.csv*", if_moved="same")


def rotate_and_read_the_new_file_only(shop: Shop) -> None:
    shop.begin()
    shop.move("exports/visits.csv", "elsewhere/visits.csv")
    shop.write("exports/visits.csv", shop.make(50))
    shop.refuses("exports", text="is not the file that was read")


def save_again_and_keep_a_copy(shop: Shop) -> None:
    """The file and its copy are both read, and neither is the one that was read before."""
    shop.begin("exports/visits.csv", n=20)
    shop.copy("exports/visits.csv", "exports/visits.csv.1")
    shop.copy("exports/visits.csv", "saved")
    shop.move("saved", "exports/visits.csv")
    shop.refuses("exports/visits.csv*", text="is a copy of")


def replace_in_place(shop: Shop) -> None:
    shop.begin()
    shop.write("exports/visits.csv", shop.make(250))
    shop.refuses("exports", text="has changed in row")


def replace_elsewhere(shop: Shop) -> None:
    """As long, of the same name, and of other rows."""
    shop.begin()
    shop.delete("exports/visits.csv")
    shop.write("new/visits.csv", shop.make(200))
    shop.goes_on("new")


def correct_a_row_and_move(shop: Shop) -> None:
    shop.begin()
    text = (shop.home / "exports/visits.csv").read_text().splitlines(keepends=True)
    shop.delete("exports/visits.csv")
    text[-1] = f"{999_999},{text[-1].partition(',')[2]}"
    shop.write("new/visits.csv", text[1:])
    shop.refuses("new", text="do not tell")


def export_again_elsewhere_with_more(shop: Shop) -> None:
    shop.begin()
    rows = (shop.home / "exports/visits.csv").read_text().removeprefix(HEADER).splitlines(keepends=True)
    shop.delete("exports/visits.csv")
    shop.write("new/visits.csv", rows + shop.make(30))
    shop.goes_on("new")


def export_again_elsewhere_in_another_order(shop: Shop) -> None:
    shop.begin()
    rows = (shop.home / "exports/visits.csv").read_text().removeprefix(HEADER).splitlines(keepends=True)
    shop.delete("exports/visits.csv")
    shop.write("new/visits.csv", rows[::-1])
    shop.refuses("new", text="do not tell")
    shop.write("new/visits.csv", shop.make(30) + rows[::-1])
    shop.refuses("new", text="do not tell")


def export_again_in_place(shop: Shop) -> None:
    shop.begin()
    shop.copy("exports/visits.csv", "saved")
    shop.move("saved", "exports/visits.csv")
    shop.refuses("exports", text="--if-replaced continue")


def dated_folders(shop: Shop) -> None:
    for day in range(3):
        shop.write(f"{day}/visits.csv", shop.make(100 + day))
        shop.goes_on(*map(str, range(day + 1)))


def dated_folders_of_equal_sizes(shop: Shop) -> None:
    for day in range(3):
        shop.write(f"{day}/visits.csv", shop.make(100))
        shop.goes_on(*map(str, range(day + 1)))


def dated_folders_of_equal_sizes_one_by_one(shop: Shop) -> None:
    for day in range(4):
        shop.write(f"{day}/visits.csv", shop.make(200))
        shop.goes_on(str(day))


def dated_folders_of_which_the_old_one_is_archived(shop: Shop) -> None:
    for day in range(4):
        shop.write(f"{day}/visits.csv", shop.make(200))
        if day:
            shop.delete(f"{day - 1}/visits.csv")
        if day > 1:  # of the first one, no row is held
            shop.refuses(str(day))
        shop.goes_on(str(day), if_moved="new" if day > 1 else "refuse")


def dated_folders_archived_with_nothing_held(shop: Shop) -> None:
    for day in range(3):
        shop.write(f"{day}/visits.csv", shop.make(100))
        if day:
            shop.delete(f"{day - 1}/visits.csv")
            shop.refuses(str(day))
        shop.goes_on(str(day), if_moved="new")
        if not day:
            shop.forget()


def dated_folders_that_move(shop: Shop) -> None:
    days = [f"exports/{day}" for day in range(4)]
    for day in days:
        shop.write(f"{day}/visits.csv", shop.make(300))
    shop.goes_on(*days)
    shop.home = shop.home.rename(shop.home.with_name("moved"))
    shop.write("exports/4/visits.csv", shop.make(300))
    shop.goes_on(*days, "exports/4")


def dated_names_of_which_the_old_one_is_archived(shop: Shop) -> None:
    for day in range(4):
        shop.write(f"exports/visits-{day}.csv", shop.make(100 + day % 2))
        if day:
            shop.delete(f"exports/visits-{day - 1}.csv")
        shop.goes_on("exports")


def rows_that_are_all_alike(shop: Shop) -> None:
    """They stand at their places in every file."""
    shop.is_constant = True
    shop.begin()
    shop.move("exports", "files")
    shop.refuses("files", text="do not tell")
    shop.goes_on("files", if_moved="same")


def dated_folders_of_rows_that_are_all_alike(shop: Shop) -> None:
    shop.is_constant = True
    shop.begin("exports/0/visits.csv")
    shop.delete("exports/0/visits.csv")
    shop.write("exports/1/visits.csv", shop.make(200))
    shop.refuses("exports/1", text="do not tell")
    shop.goes_on("exports/1", if_moved="new")


def files_without_rows(shop: Shop) -> None:
    shop.begin()
    for day in range(3):
        shop.write(f"exports/{day}/empty.csv", [])
        shop.goes_on("exports", f"exports/{day}")


SCENARIOS: list[Callable[[Shop], None]] = [
    move_project,
    move_project_that_has_grown,
    copy_project,
    copy_project_that_has_grown,
    copy_project_of_which_nothing_is_held,
    copy_project_and_delete_it,
    rename_folder,
    rename_folder_with_new_rows_and_a_new_file,
    rename_folder_of_which_one_file_is_held,
    rename_folder_of_which_nothing_is_held,
    rename_folder_that_has_grown_of_which_nothing_is_held,
    rename_file,
    rename_file_that_has_grown,
    rename_file_of_which_nothing_is_held,
    copy_file_under_another_name_and_delete_it,
    copy_file_beside_itself,
    copy_file_beside_itself_of_which_nothing_is_held,
    pack_file_and_keep_it,
    export_plain_and_packed,
    export_all_rows_and_more_beside_them,
    move_file_and_copy_it_too,
    swap_two_files,
    move_file_away_and_back,
    move_file_and_put_another_in_its_place,
    pack_file_in_its_place,
    pack_file_of_which_nothing_is_held,
    rotate,
    rotate_by_copy,
    rotate_and_pack,
    rotate_and_pack_what_is_not_held,
    rotate_and_read_the_new_file_only,
    save_again_and_keep_a_copy,
    replace_in_place,
    replace_elsewhere,
    correct_a_row_and_move,
    export_again_elsewhere_with_more,
    export_again_elsewhere_in_another_order,
    export_again_in_place,
    dated_folders,
    dated_folders_of_equal_sizes,
    dated_folders_of_equal_sizes_one_by_one,
    dated_folders_of_which_the_old_one_is_archived,
    dated_folders_archived_with_nothing_held,
    dated_folders_that_move,
    dated_names_of_which_the_old_one_is_archived,
    rows_that_are_all_alike,
    dated_folders_of_rows_that_are_all_alike,
    files_without_rows,
]


@pytest.mark.parametrize("by", [False, True], ids=["one", "by"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_each_row_is_counted_once_or_the_file_is_refused(
    tmp_path: Path, scenario: Callable[[Shop], None], by: bool
) -> None:
    scenario(Shop(tmp_path, by))

from bertsmith.checkpoints.left_aside import LeftAside, listed, notes_on


def group(names, **options):
    return LeftAside(reason="not needed", names=tuple(names), **options)


def test_twelve_names_are_shown_and_the_rest_counted():
    names = [f"n{number}" for number in range(14)]
    assert listed(names[:12]) == ", ".join(names[:12])
    assert listed(names) == f"{', '.join(names[:12])} and 2 more"
    assert group(names).names == tuple(names)


def test_the_parts_of_an_optimizer_are_counted_by_their_kind():
    slots = group(["a/m", "b/m", "b/v", "step"], is_counted_by_kind=True)
    assert slots.note == "left aside, not needed: 2 m, v, step"


def test_only_a_note_that_leaves_names_out_says_how_to_see_all():
    assert notes_on([], "m") == ()
    assert notes_on([group("ab")], "m") == ("left aside, not needed: a, b",)
    assert notes_on([group(["step"], is_counted_by_kind=True)], "m") == (
        "left aside, not needed: step",
    )
    hint = "all 3 names left aside: bertsmith.load('m').left_aside"
    assert notes_on([group(["x"]), group(["a/m", "b/m"], is_counted_by_kind=True)], "m")[2:] == (
        hint,
    )
    assert len(notes_on([group(map(str, range(12)))], "m")) == 1
    assert len(notes_on([group(map(str, range(13)))], "m")) == 2

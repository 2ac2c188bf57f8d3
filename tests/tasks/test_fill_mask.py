import numpy as np
import pytest

from bertsmith.tasks.fill_mask import Candidate, FilledText, encode, target_ids
from tests.checkpoints.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()


def filled(text, *tokens):
    (question,) = encode([text], TOKENIZER, 24)
    masks = tuple((Candidate(token=t, token_id=0, probability=1.0),) for t in tokens)
    return FilledText(question=question, masks=masks).filled


def test_a_mask_in_the_text_is_the_mask_token():
    (question,) = encode(["the [MASK] is hairy"], TOKENIZER, 24)
    (window,) = question.windows
    tokens = [TOKENIZER.token_of(token_id) for token_id in window.item.token_ids.tolist()]
    assert tokens == ["[CLS]", "the", "[MASK]", "is", "hairy", "[SEP]"]
    assert question.mask_spans == ((4, 10),)


def test_several_masks_keep_their_places_in_the_text():
    text = "The [MASK] of[MASK], is"
    (question,) = encode([text], TOKENIZER, 24)
    assert [text[start:end] for start, end in question.mask_spans] == ["[MASK]", "[MASK]"]


def test_a_long_text_is_read_around_its_masks_and_counted():
    text = f"{'dog ' * 30}the [MASK] is {'cat ' * 30}"
    (question,) = encode([text], TOKENIZER, 24)
    (window,) = question.windows
    ids = window.item.token_ids
    assert len(ids) == 24
    assert question.num_unread == 63 - 22
    assert (ids == TOKENIZER.mask_id).sum() == 1
    assert ids[window.rows].tolist() == [TOKENIZER.mask_id]
    assert text[slice(*question.mask_spans[0])] == "[MASK]"


@pytest.mark.parametrize("places", [(0, 31), (0, 10, 30, 39), (5, 6, 15, 16, 17, 38), range(40)])
def test_far_masks_are_asked_about_once_each_with_context_on_both_sides(places):
    words = ["[MASK]" if number in places else "dog" for number in range(40)]
    text = " ".join(words)
    (question,) = encode([text], TOKENIZER, 24)
    asked, is_read = [], np.zeros(40, bool)
    for window in question.windows:
        ids = window.item.token_ids[1:-1]
        assert len(ids) == 22
        (start,) = {  # where the window's own masks say that it stands
            place - row + 1
            for place, row in zip(places[len(asked) :], window.rows.tolist(), strict=False)
        }
        assert [TOKENIZER.token_of(id) for id in ids.tolist()] == [
            word if word == "[MASK]" else "dog" for word in words[start : start + 22]
        ]
        is_read[start : start + 22] = True
        for row in window.rows - 1:
            assert row >= min(5, start + row)
            assert 21 - row >= min(5, 39 - start - row)
            asked.append(start + row)
    assert asked == list(places)
    assert question.num_unread == (~is_read).sum()
    assert [text[start:end] for start, end in question.mask_spans] == ["[MASK]"] * len(places)


def test_masks_at_both_ends_of_a_text_that_fits_are_read_together():
    (question,) = encode([f"[MASK] {'dog ' * 20}[MASK]"], TOKENIZER, 24)
    assert [window.rows.tolist() for window in question.windows] == [[1, 22]]
    assert question.num_unread == 0


def test_a_text_without_a_mask_is_refused_and_shown():
    with pytest.raises(ValueError, match=r"text 2: no \[MASK\] in 'the dog': write \[MASK\]"):
        encode(["[MASK]", "the dog"], TOKENIZER, 24)


def test_the_likeliest_tokens_take_the_masks_places_in_the_users_own_text():
    assert filled("My  [MASK] is [MASK]!", "dog", "hairy") == "My  dog is hairy!"
    assert filled("he likes play [MASK].", "##ing") == "he likes playing."


def test_targets_are_single_tokens_in_the_models_own_case():
    assert target_ids(["Paris", "##ing"], TOKENIZER) == [
        TOKENIZER.id_of("paris"),
        TOKENIZER.id_of("##ing"),
    ]


def test_all_unusable_targets_are_named_at_once():
    with pytest.raises(ValueError, match="one token") as caught:
        target_ids(["dog", "playing", "zebra", ""], TOKENIZER)
    assert "'playing' (in tokens: play ##ing)" in str(caught.value)
    assert "'zebra' (in tokens: [UNK])" in str(caught.value)
    assert "'' (in tokens: nothing)" in str(caught.value)
    assert "'dog'" not in str(caught.value)

import pytest

from bertsmith.tasks.next_sentence import encode
from tests.checkpoints.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()


def test_a_pair_is_cls_first_sep_second_sep():
    (item,) = encode([("the dog", "he likes")], TOKENIZER, 24)
    tokens = [TOKENIZER.token_of(token_id) for token_id in item.token_ids.tolist()]
    assert tokens == ["[CLS]", "the", "dog", "[SEP]", "he", "likes", "[SEP]"]
    assert item.segment_ids.tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_special_tokens_in_a_pair_are_ordinary_characters():
    (item,) = encode([("the [SEP] dog", "he")], TOKENIZER, 24)
    assert (item.token_ids == TOKENIZER.sep_id).sum() == 2


def test_a_long_pair_is_trimmed_and_counted():
    (item,) = encode([("dog " * 40, "cat " * 5)], TOKENIZER, 24)
    assert len(item.token_ids) == 24
    assert item.num_unread == 24
    assert (item.token_ids == TOKENIZER.id_of("cat")).sum() == 5


@pytest.mark.parametrize("text", ["  ", "\u200b"])
def test_a_text_without_a_token_is_refused_with_the_number_of_its_pair(text):
    with pytest.raises(ValueError, match=rf"pair 2: {text!r} has no token".replace("\\", r"\\")):
        encode([("the dog", "he"), ("the dog", text)], TOKENIZER, 24)

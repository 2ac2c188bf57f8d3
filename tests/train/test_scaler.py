from bertsmith.train.scaler import GROWTH_INTERVAL, LossScaler


def test_overflow_halves_the_scale_and_restarts_the_count() -> None:
    scaler = LossScaler(scale=1024.0, clean_steps=7)
    scaler.update(overflowed=True)
    assert scaler == LossScaler(scale=512.0, clean_steps=0)


def test_scale_doubles_after_2000_clean_steps_and_not_before() -> None:
    scaler = LossScaler(scale=1024.0)
    for _ in range(GROWTH_INTERVAL - 1):
        scaler.update(overflowed=False)
    assert scaler == LossScaler(scale=1024.0, clean_steps=1999)
    scaler.update(overflowed=False)
    assert scaler == LossScaler(scale=2048.0, clean_steps=0)

"""arena.ratings against the numbers of public programs, against slow twins, and in simulations whose truth is known."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from arena.ratings import PairCounts, Result, Sprt, compare, expected_score, logistic_llr, rate
from arena.ratings.elo import EloEstimate, K, elo

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "ratings.json").read_text(encoding="utf-8"))


count = st.one_of(st.integers(0, 3), st.integers(0, 20_000))
pair_counts = st.builds(PairCounts, count, count, count, count, count)


@st.composite
def league_results(draw):
    black, white = draw(st.permutations("ABCDE"))[:2]
    halves = draw(st.integers(1, 80))
    points = draw(st.one_of(st.sampled_from([0, halves]), st.integers(0, halves))) / 2
    return Result(black, white, points, -(-halves // 2), draw(st.one_of(st.none(), st.integers(0, 5))))


leagues = st.lists(league_results(), min_size=1, max_size=12)


def golden(number):
    """Equal in every digit the source prints, but for a unit in the eighth that matters."""
    digits = len(str(number).partition(".")[2])
    return pytest.approx(number, abs=0.5 * 10**-digits, rel=1e-7)


def check_mirrored(one, other):
    """The same estimate seen from the other side."""
    for mine, theirs in ((one.value, other.value), (one.low, other.high), (one.high, other.low)):
        assert (mine is None) == (theirs is None)
        assert mine is None or mine == pytest.approx(-theirs, abs=1e-6, rel=1e-6)


def check_finite(estimate):
    value, low, high = estimate
    assert all(end is None or math.isfinite(end) for end in estimate)
    assert (low is None or low <= value) and (high is None or value <= high)


# --- Two players ---


@pytest.mark.smoke
@pytest.mark.parametrize("row", GOLDEN["pentanomial"])
def test_a_match_gives_the_figures_of_fastchess_and_fishtest(row):
    """Theirs is the interval of a normal distribution; with 290 pairs it and ours are hardly apart."""
    comparison = compare(PairCounts(row["LL"], row["LD"], row["WL_DD"], row["WD"], row["WW"]))
    assert comparison.elo.value == golden(row["elo"])
    assert comparison.elo.low == pytest.approx(row["elo"] - row["err95"], abs=0.5)
    assert comparison.elo.high == pytest.approx(row["elo"] + row["err95"], abs=0.5)
    assert comparison.normalised.value == golden(row["nelo"])
    assert comparison.normalised.high - row["nelo"] == golden(row["nelo_err95"])
    assert comparison.los == pytest.approx(row["los"], abs=1e-4)


def test_an_estimate_is_written_in_one_way_and_few_pairs_are_no_certainty():
    """Two pairs won in a row had a likelihood of superiority of 100.0 %."""
    for counts, text in {
        (34, 54, 63, 64, 75): "+55.6 ± 27.8",
        (0, 0, 2, 1, 7): "+338.0 ± 255.6",
        (0, 0, 0, 0, 5): "+830 (-15 to ∞)",
        (0, 0, 0, 0, 50): "+1210 (+446 to ∞)",
        (0, 0, 1, 0, 0): "+0 (-∞ to ∞)",
        (0, 0, 50, 0, 0): "+0.0 ± 9.9",
        (0, 0, 0, 0, 0): "+0 (-∞ to ∞)",
    }.items():
        assert str(compare(PairCounts(*counts)).elo) == text
    # the probability that equals don't play such a sweep, where an opening is won whole
    assert [compare(PairCounts(0, 0, 0, 0, won)).los for won in (1, 2, 5)] == pytest.approx([0.5, 0.75, 1 - 0.5**5])


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=3, max_size=30))
def test_two_players_are_as_far_apart_as_their_mean_score_says_with_the_variance_of_the_openings(openings):
    """The slow twin, in scores: of K openings with n games, the sum of n² (mean - score)² / (1 - n / N)."""
    played = [(games, min(won, games)) for games, won in openings]
    games, won = np.array(played, float).T
    if not 0 < won.sum() < games.sum():
        return
    rows = [Result("A", "B", own, all_, number) for number, (all_, own) in enumerate(played)]
    difference, score = rate(rows).difference("A", "B"), won.sum() / games.sum()
    assert difference.value == pytest.approx(elo(score))
    leverage = np.minimum(games / games.sum(), 0.9)
    leverage = np.maximum(leverage, 1 / len(games))
    openings = (games**2).sum() ** 2 / (games**4).sum()
    variance = ((won - games * score) ** 2 / (1 - leverage)).sum()
    variance += games.sum() * score * (1 - score) / openings  # one more opening
    error = math.sqrt(variance) / (games.sum() * score * (1 - score))
    width = K * error * stats.t.ppf(0.975, openings - 1)
    for end in difference[1:]:
        assert end is None or abs(end - difference.value) == pytest.approx(width, rel=1e-6)
    assert difference.low is not None or width > 1700 or openings < 1.1


@example(PairCounts(1_000_000, 3, 1_000_000, 0, 999_999))
@example(PairCounts(0, 0, 0, 0, 1_000_000))
@given(pair_counts)
def test_any_counts_give_finite_figures_that_agree_and_are_mirrored_by_swapped_players(counts):
    comparison, other = compare(counts), compare(PairCounts(*reversed(counts)))
    for one, swapped in ((comparison.elo, other.elo), (comparison.normalised, other.normalised)):
        assert (one is None) == (swapped is None)
        if one is not None:
            check_finite(one)
            check_mirrored(one, swapped)
    assert 0 <= comparison.los <= 1
    assert comparison.los == pytest.approx(1 - other.los, abs=1e-9)
    for low, los in ((comparison.elo.low, comparison.los), (other.elo.low, other.los)):
        assert low is None or (low > 1e-6) <= (los >= 0.975) <= (low > -1e-6)


# --- Sequential tests ---


@pytest.mark.parametrize(
    "row", [row for row in GOLDEN["sprt"] if row["model"] == "logistic" and isinstance(row["llr"], float)]
)
def test_the_likelihood_ratio_is_that_of_fishtest(row):
    counts = row["penta"] if "penta" in row else row["wdl"][::-1]
    assert logistic_llr(counts, row["elo0"], row["elo1"]) == golden(row["llr"])
    if "bound" in row:
        bounds = Sprt(row["elo0"], row["elo1"], row["alpha"], row["beta"]).bounds
        assert bounds == (golden(-row["bound"]), golden(row["bound"]))


@given(pair_counts, st.sampled_from([(0, 2), (0, 50), (-300, 0), (-1500, -500), (-2000, 2000)]))
def test_every_state_of_a_test_is_finite_and_swapping_players_and_hypotheses_flips_it(counts, hypotheses):
    elo0, elo1 = hypotheses
    ratio = Sprt(elo0, elo1).state(counts).llr
    assert math.isfinite(ratio)
    if max(map(abs, hypotheses)) <= 300:
        assert ratio == pytest.approx(-logistic_llr(counts[::-1], -elo1, -elo0), rel=1e-6, abs=1e-6)


@given(st.lists(st.integers(1, 500), min_size=5, max_size=5), st.floats(-300, 300))
def test_the_logistic_ratio_is_that_of_the_slow_twin(counts, elo1):
    p, scores = np.array(counts) / sum(counts), np.linspace(0, 1, 5)

    def log_likelihood(difference):
        d = scores - expected_score(difference)
        t = optimize.brentq(lambda t: p @ (d / (1 + t * d)), -1 / d.max() + 1e-9, -1 / d.min() - 1e-9, xtol=1e-15)
        return sum(counts) * (p @ np.log(p / (1 + t * d)))

    twin = log_likelihood(elo1) - log_likelihood(0)
    assert logistic_llr(counts, 0, elo1) == pytest.approx(twin, rel=1e-6, abs=1e-6)


# --- A league ---


def league_of(row):
    """The results of a golden row; games of unknown colour are Black's of the first player."""
    colours = row.get("games_black_white", row.get("games"))
    return [Result(a, b, wins, wins + losses) for a, b, wins, losses in colours]


@pytest.mark.smoke
@pytest.mark.parametrize("row", GOLDEN["bradley_terry"], ids=["choix", "KataGo C++", "Ordo -W", "KataGo Python"])
def test_a_league_is_rated_as_by_public_programs(row):
    prior = max(1e-6, row.get("prior", row.get("prior_virtual_games")))  # next to nothing where the program has none
    ratings = rate(league_of(row), prior=prior, black_advantage="black_advantage" in row)
    at = dict(zip(ratings.players, ratings.elo, strict=True))
    expected = row.get("elo", {})
    if row.get("prior") == 0 and expected:  # theirs are of single games, in a normal distribution
        for pair, error in row["se_diff"].items():
            _, low, high = ratings.difference(*pair)
            assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.02)
    for a, b in itertools.combinations(expected, 2):  # the sources print 3 decimals or more
        assert at[a] - at[b] == pytest.approx(expected[a] - expected[b], abs=6e-4)
    if "diff_AB" in row:
        assert at["A"] - at["B"] == golden(row["diff_AB"])
    if "black_advantage" in row:
        assert ratings.black_advantage.value == golden(row["black_advantage"])


THREE = [Result("A", "B", 60, 100), Result("B", "C", 70, 100), Result("C", "A", 20, 100)]


def test_the_zero_is_the_mean_of_the_players_or_of_anchors_and_moves_everybody_alike():
    ratings = rate(THREE)
    assert ratings.elo.sum() == pytest.approx(0) and all(
        low < value < high for value, low, high in ratings.estimates.values()
    )
    above = ratings.relative_to({"B": 1946.0})
    assert above.estimates["B"] == EloEstimate(1946.0, 1946.0, 1946.0)
    for player in "AC":
        apart = ratings.difference(player, "B")
        assert above.estimates[player] == pytest.approx([1946 + end for end in apart])
    two = ratings.relative_to({"A": 100.0, "C": -150.0})
    assert (two.elo[0] + two.elo[2]) / 2 == pytest.approx(-25)
    assert ratings.estimates["B"].value == pytest.approx(ratings.elo[1])  # the first is what it was


@pytest.mark.parametrize(
    ("anchors", "words"),
    [
        ({"nobody": 1500}, "nobody has no rated games; rated are A, B, C"),
        ({"A": 0, "C": 500}, r"A=0 and C=500: .* \+231"),
    ],
)
def test_anchors_that_are_unknown_or_that_the_games_exclude_are_refused(anchors, words):
    with pytest.raises(ValueError, match=words):
        rate(THREE).relative_to(anchors)


def test_a_prior_counts_only_where_somebody_never_lost_to_the_rest():
    """rate(prior=0) raised LinAlgError for games that needed none."""
    assert rate(THREE).prior == 0 and np.array_equal(rate(THREE).elo, rate(THREE, prior=0).elo)
    assert rate([*THREE, Result("C", "D", 9, 9)]).prior == 0.2
    with pytest.raises(ValueError, match="only a prior above 0"):
        rate([Result("A", "B", 9, 9)], prior=0)


def test_a_bridge_of_one_opening_measures_nothing():
    """Its residual is 0 at any fit: a variance of residuals alone took it for certainty."""
    rng = np.random.default_rng(3)
    rows = [Result(*pair, float(rng.random() < 0.5)) for pair in ("AB", "CD") for _ in range(200)]
    bridge = [Result("B", "C", won, 1, "one") for won in (1, 0, 1, 0)]
    ratings = rate([*rows, *bridge])
    assert ratings.difference("A", "B").is_bounded and not ratings.difference("A", "D").is_bounded
    many = [Result("B", "C", won, 1, number // 2) for number, won in enumerate([1, 0, 0, 1, 1, 1, 0, 0] * 5)]
    assert ratings.difference("A", "B").is_bounded and rate([*rows, *many]).difference("A", "D").is_bounded


def test_results_that_do_not_fit_one_scale_are_named():
    """A beat B 91-9, B beat C 87-13, C beat A 91-9: all within 56 Elo, without a word."""
    rows = [(pair, wins) for pair, wins in (("AB", 91), ("BC", 87), ("CA", 91))]
    circle = [Result(*pair, float(game < wins), 1, (pair, game % 50)) for pair, wins in rows for game in range(100)]
    found = rate(circle).misfits()
    assert [(one.first, one.second, one.points) for one in found] == [("A", "B", 91), ("A", "C", 9), ("B", "C", 87)]
    assert all(abs(one.expected - 50) < 10 and one.chance < 1e-6 for one in found)
    assert rate([Result("A", "B", 9, 9, "one"), Result("B", "A", 1, 9, "one")]).misfits() == []
    assert rate(THREE).misfits() == [] == rate([Result("A", "B", 100, 100), Result("B", "C", 9, 9)]).misfits()


def test_players_who_never_lost_to_the_rest_have_a_number_and_an_interval_that_is_open_to_their_side():
    results = [Result("A", "B", 5, 5), Result("B", "A", 0, 5), Result("B", "C", 4, 6), Result("A", "D", 5, 9)]
    ratings = rate(results, prior=0.2, black_advantage=False)
    assert ratings.components == (("A", "D"), ("B", "C")) and ratings.ranking() == ("A", "D", "B", "C")
    for stronger, weaker in itertools.product("AD", "BC"):
        difference = ratings.difference(stronger, weaker)
        assert difference.low < difference.value and difference.high is None
    assert str(ratings.difference("A", "B")) == "+718 (+78 to ∞)" and ratings.los("A", "B") > 0.99
    gauntlet = rate([Result("A", other, won, 20) for other, won in zip("BCDE", (10, 8, 6, 20), strict=True)])
    assert gauntlet.los_matrix + gauntlet.los_matrix.T == pytest.approx(1)  # B over E was 99.8 %, E over B 16.8 %
    apart = rate([Result("A", "B", 1, 2), Result("C", "D", 1, 2)])
    assert apart.difference("A", "C") == EloEstimate(pytest.approx(0), None, None)
    assert rate([Result("A", "B", 9.5, 10)]).components == (("A", "B"),)  # a draw beats in both directions


def test_the_black_advantage_is_bounded_where_no_strengths_can_follow_it():
    """The slow twin: strengths and an advantage that never make a result less likely, by linear programming.
    A match at 34-0 said: advantage of playing Black +0.0 ± 1737.2 Elo."""
    rng, seen = np.random.default_rng(8), []
    for _ in range(60):
        results = [
            Result(black, white, float(rng.choice([0, 1, 2])), 2)
            for black, white in itertools.permutations("ABCD", 2)
            if rng.random() < 0.7
        ]
        if not results:
            continue
        rows = []
        for row in results:
            odds = [(row.black == name) - (row.white == name) for name in "ABCD"]
            rows += [[-odd for odd in odds] + [-1]] * (row.black_points > 0) + [[*odds, 1]] * (row.black_points < 2)
        free = [
            optimize.linprog(np.zeros(5), rows, np.zeros(len(rows)), bounds=[(None, None)] * 4 + [(side, side)]).success
            for side in (-1, 1)
        ]
        assert (rate(results, black_advantage=True).black_advantage is None) == any(free), results
        seen.append(any(free))
    assert 5 < sum(seen) < len(seen) - 5


def slow_loss(results, x, prior):
    """Of ratings in natural units by the players' order, and Black's advantage last."""
    *ratings, advantage = x
    at = dict(zip(sorted({row.black for row in results}), ratings, strict=True))
    total = sum(prior / 2 * (np.logaddexp(0, v) + np.logaddexp(0, -v)) for v in x)
    for row in results:
        odds = at[row.black] - at[row.white] + advantage
        total += row.black_points * np.logaddexp(0, -odds)
        total += (row.games - row.black_points) * np.logaddexp(0, odds)
    return total


@pytest.mark.parametrize("prior", [0, 0.2])
def test_the_fit_is_that_of_a_general_optimiser(prior):
    rng = np.random.default_rng(5)
    results = [Result(a, b, rng.integers(0, 21) / 2, 10) for a, b in itertools.permutations("ABC", 2)]
    best = optimize.minimize(lambda x: slow_loss(results, x, prior), np.zeros(4), tol=1e-12)
    ratings = rate(results, prior=prior, black_advantage=True)
    assert ratings.elo == pytest.approx(K * (best.x[:3] - best.x[:3].mean()), abs=0.01)
    assert ratings.black_advantage.value == pytest.approx(K * best.x[3], abs=0.01)


@settings(max_examples=25)
@given(leagues, st.sampled_from([None, 0.01, 0.2, 2.0]), st.booleans())
def test_no_league_gives_nan_or_infinity(results, prior, black_advantage):
    ratings = rate(results, prior=prior, black_advantage=black_advantage)
    assert np.isfinite(ratings.elo).all() and np.isfinite(ratings.los_matrix).all()
    assert ratings.los_matrix + ratings.los_matrix.T == pytest.approx(1)
    for estimate in ratings.estimates.values():
        check_finite(estimate)
    for a, b in itertools.permutations(ratings.players, 2):
        check_finite(ratings.difference(a, b))
        check_mirrored(ratings.difference(a, b), ratings.difference(b, a))
    if ratings.black_advantage is not None:
        check_finite(ratings.black_advantage)
    assert sorted(itertools.chain(*ratings.components)) == list(ratings.players)


@settings(max_examples=15)
@given(leagues, st.randoms(use_true_random=False))
def test_the_order_of_the_results_does_not_matter_and_turning_them_round_flips_every_rating(results, random):
    one, other = rate(results), rate(random.sample(results, len(results)))
    assert (one.players, one.components) == (other.players, other.components)
    assert np.array_equal(one.elo, other.elo)
    for a, b in itertools.combinations(one.players, 2):
        assert one.difference(a, b) == pytest.approx(other.difference(a, b)) or not one.difference(a, b).is_bounded
    other = rate([row._replace(black_points=row.games - row.black_points) for row in results])
    for a, b in itertools.combinations(one.players, 2):
        check_mirrored(one.difference(a, b), other.difference(a, b))


@pytest.mark.parametrize(
    "truth", [[0, 10, 1200, 1600, 1700, 2000], [0, 50, 80, 200, 320, 500, 510, 700]], ids=["ladder", "league"]
)
def test_intervals_hold_95_percent_of_the_true_differences(truth):
    """Of round robins of 100 games a pairing, half of them in each colour."""
    rng, held = np.random.default_rng(7), []
    strengths = dict(zip("ABCDEFGH", truth, strict=False))
    for _ in range(50):
        chances = {
            (black, white): expected_score(strengths[black] - strengths[white] + 40)
            for black, white in itertools.permutations(strengths, 2)
        }
        ratings = rate([Result(*pair, float(rng.binomial(50, chance)), 50) for pair, chance in chances.items()])
        for a, b in itertools.combinations(strengths, 2):
            _, low, high = ratings.difference(a, b)
            difference = strengths[a] - strengths[b]
            held.append((low is None or low <= difference) and (high is None or difference <= high))
    assert 0.93 <= np.mean(held) <= 0.98

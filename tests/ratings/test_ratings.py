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
from arena.ratings.elo import Estimate, K, chance_below

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "ratings.json").read_text(encoding="utf-8"))


count = st.one_of(st.integers(0, 3), st.integers(0, 1_000_000))
pair_counts = st.builds(PairCounts, count, count, count, count, count)


@st.composite
def league_results(draw):
    black, white = draw(st.permutations("ABCDE"))[:2]
    halves = draw(st.integers(1, 2000))
    return Result(black, white, draw(st.one_of(st.sampled_from([0, halves]), st.integers(0, halves))) / 2, halves / 2)


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


@pytest.mark.parametrize("row", GOLDEN["pentanomial"])
def test_a_match_gives_the_figures_of_fastchess_and_fishtest(row):
    """Theirs is the interval of a normal distribution; with 290 pairs it and ours are hardly apart."""
    comparison = compare(PairCounts(row["LL"], row["LD"], row["WL_DD"], row["WD"], row["WW"]))
    assert comparison.elo.value == golden(row["elo"])
    assert comparison.elo.low == pytest.approx(row["elo"] - row["err95"], abs=0.5)
    assert comparison.elo.high == pytest.approx(row["elo"] + row["err95"], abs=0.5)
    assert comparison.normalised.value == golden(row["nelo"])
    assert comparison.normalised.high - row["nelo"] == golden(row["nelo_err95"])
    assert comparison.los == pytest.approx(row["los"], abs=2e-5)


def test_an_estimate_is_written_in_one_way_and_few_pairs_are_no_certainty():
    """Two pairs won in a row had a likelihood of superiority of 100.0 %."""
    for counts, text in {
        (34, 54, 63, 64, 75): "+55.6 ± 27.8",
        (0, 0, 2, 1, 7): "+338 (+120 to +615)",
        (7, 1, 2, 0, 0): "-338 (-615 to -120)",
        (0, 0, 0, 0, 5): "+802 (+63 to ∞)",
        (0, 0, 0, 0, 50): "+1200 (+651 to ∞)",
        (0, 0, 0, 0, 0): "+0 (-∞ to ∞)",
    }.items():
        assert str(compare(PairCounts(*counts)).elo) == text
    assert [compare(PairCounts(0, 0, 0, 0, won)).los for won in (1, 2)] == pytest.approx([0.75, 0.875])


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


@pytest.mark.parametrize(
    ("counts", "score"),
    [((0, 0, 2, 1, 7), 0.7), ((0, 0, 0, 0, 5), 0.6), ((3, 1, 4, 1, 5), 0.5), ((0, 0, 0, 0, 100), 0.98)],
)
def test_the_chance_of_a_score_is_that_of_a_million_draws(counts, score):
    rng = np.random.default_rng(1)
    imagined = 4 * np.array([(1 - score) ** 2, 0, 2 * score * (1 - score), 0, score**2])
    imagined[2] = max(imagined[2], 0.5)
    shares = rng.dirichlet(np.array(counts) + imagined, 1_000_000)
    drawn = (shares @ np.linspace(0, 1, 5) < score).mean()
    assert chance_below(np.array(counts, float), score) == pytest.approx(drawn, abs=0.001)


def results_of_a_pair(difference, draws, bias=0.0):
    """The chances (5,) of a pair's scores between players this far apart in Elo, where the opening is worth `bias` to
    Black; games are drawn this often, or as often as the difference allows."""
    pair = np.ones(1)
    scores = [expected_score(difference + side * bias) for side in (1, -1)]
    drawn = min(draws, *(1.8 * min(score, 1 - score) for score in scores))
    for score in scores:
        pair = np.convolve(pair, [1 - score - drawn / 2, drawn, score - drawn / 2])
    return pair, sum(scores) / 2


def coverage(pairs, difference, draws, bias=0.0):
    """How often the 95 % interval after so many pairs holds the truth: exact up to 10 pairs, else of 4,000 matches."""
    chances, score = results_of_a_pair(difference, draws, bias)
    if pairs <= 10:
        counts = [split for split in itertools.product(range(pairs + 1), repeat=5) if sum(split) == pairs]
        shares = stats.multinomial.pmf(counts, pairs, chances)
    else:
        drawn = np.random.default_rng(pairs).multinomial(pairs, chances, 4000)
        counts, number = np.unique(drawn, axis=0, return_counts=True)
        shares = number / 4000
    below = [chance_below(np.array(split, float), score) for split in counts]
    return sum(share for share, chance in zip(shares, below, strict=True) if 0.025 < chance < 0.975)


@pytest.mark.parametrize(("pairs", "difference"), [*itertools.product([5, 20, 200], [0, 300])])
def test_intervals_of_few_pairs_hold_the_truth_as_often_as_they_promise(pairs, difference):
    """It was 87 to 91 % of matches of 10 pairs."""
    noise = 0.0 if pairs <= 10 else 2.5 * math.sqrt(0.94 * 0.06 / 4000)
    for draws, bias in ((0, 0), (0.1, 0), (0.5, 0), (0.1, 200)):
        assert coverage(pairs, difference, draws, bias) >= 0.94 - noise


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


def test_a_sequential_test_errs_no_more_often_than_promised():
    elo0, elo1, tests, rng = 0, 80, 2000, np.random.default_rng(1)
    lower, upper = Sprt(elo0, elo1).bounds
    for truth, wrong in ((elo0, 1), (elo1, 0)):
        chances, _ = results_of_a_pair(truth, 0.1)
        counts, accepted = np.zeros((tests, 5)), np.zeros(2)
        while len(counts):
            counts += rng.multinomial(1, chances, len(counts))
            llr = logistic_llr(counts, elo0, elo1)
            accepted += (llr <= lower).sum(), (llr >= upper).sum()
            counts = counts[(lower < llr) & (llr < upper)]
        assert accepted[wrong] <= 1.2 * 0.05 * tests


# --- A league ---


def league_of(row):
    """The results of a golden row; games of unknown colour are Black's of the first player."""
    colours = row.get("games_black_white", row.get("games"))
    return [Result(a, b, wins, wins + losses) for a, b, wins, losses in colours]


@pytest.mark.parametrize("row", GOLDEN["bradley_terry"], ids=["choix", "KataGo C++", "Ordo -W", "KataGo Python"])
def test_a_league_is_rated_as_by_public_programs(row):
    prior = max(1e-6, row.get("prior", row.get("prior_virtual_games")))  # next to nothing where the program has none
    ratings = rate(league_of(row), prior=prior, black_advantage="black_advantage" in row)
    at = dict(zip(ratings.players, ratings.elo, strict=True))
    expected = row.get("elo", {})
    for a, b in itertools.combinations(expected, 2):  # the sources print 3 decimals or more
        assert at[a] - at[b] == pytest.approx(expected[a] - expected[b], abs=6e-4)
    if "diff_AB" in row:
        assert at["A"] - at["B"] == golden(row["diff_AB"])
        assert ratings.standard_error("A", "B") == golden(row["se_diff"])
    else:
        for pair, error in row.get("se_diff", {}).items():
            assert ratings.standard_error(*pair) == golden(error)
    if "black_advantage" in row:
        assert ratings.black_advantage.value == golden(row["black_advantage"])


def test_the_anchor_is_zero_and_its_error_goes_to_the_others():
    ratings = rate([Result("A", "B", 60, 100), Result("B", "C", 70, 100)]).relative_to("B")
    assert str(ratings.difference("B", "B")) == "0" and ratings.elo[1] == 0
    difference = ratings.difference("A", "C")
    error = ratings.standard_error("A", "C")
    assert difference.high - difference.low == pytest.approx(2 * 1.959964 * error, rel=0.01)
    assert ratings.los("A", "C") == pytest.approx(stats.norm.cdf(difference.value / error), abs=1e-4)
    assert ratings.los("A", "C") + ratings.los("C", "A") == pytest.approx(1)


def test_players_who_never_lost_to_the_rest_have_a_number_and_an_interval_that_is_open_to_their_side():
    results = [Result("A", "B", 5, 5), Result("B", "A", 0, 5), Result("B", "C", 4, 6), Result("A", "D", 5, 9)]
    ratings = rate(results, prior=0.2, black_advantage=False)
    assert ratings.components == (("A", "D"), ("B", "C")) and ratings.ranking() == ("A", "D", "B", "C")
    for stronger, weaker in itertools.product("AD", "BC"):
        difference = ratings.difference(stronger, weaker)
        assert difference.low < difference.value and difference.high is None
    assert str(ratings.difference("A", "B")) == "+718 (+225 to ∞)" and ratings.los("A", "B") > 0.99
    apart = rate([Result("A", "B", 1, 2), Result("C", "D", 1, 2)])
    assert apart.difference("A", "C") == Estimate(pytest.approx(0), None, None)
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
        ratings = rate(results)
        can_be_told = ratings.likelihood.estimate(np.eye(len(ratings.players) + 1)[-1]) if not any(free) else None
        assert (ratings.black_advantage is None) == any(free), results
        assert ratings.black_advantage == can_be_told
        seen.append(any(free))
    assert 5 < sum(seen) < len(seen) - 5


def test_a_league_of_two_says_what_their_match_says():
    """elo.csv had -26.7 as the lower end where the report of the same games said at least 234."""
    results = [Result("A", "B", 9, 10), Result("B", "A", 1.5, 10)]
    league, match = rate(results).difference("A", "B"), compare(PairCounts(0, 0, 2, 1, 7)).elo
    assert league.value == pytest.approx(match.value, abs=5)
    assert league.low == pytest.approx(match.low, abs=25)
    assert league.high == pytest.approx(match.high, abs=25)


def slow_loss(results, x):
    """Of ratings in natural units by the players' order, and Black's advantage last: with a prior of 0.2 games."""
    *ratings, advantage = x
    at = dict(zip(sorted({row.black for row in results}), ratings, strict=True))
    total = sum(0.1 * (np.logaddexp(0, v) + np.logaddexp(0, -v)) for v in x)
    for row in results:
        odds = at[row.black] - at[row.white] + advantage
        total += row.black_points * np.logaddexp(0, -odds)
        total += (row.games - row.black_points) * np.logaddexp(0, odds)
    return total


def test_the_fit_and_its_intervals_are_those_of_the_slow_twin():
    """A general optimiser. An interval ends where the likelihood, at its best with this difference, has fallen by half
    a quantile of chi squared."""
    rng = np.random.default_rng(5)
    results = [Result(a, b, rng.integers(0, 21) / 2, 10) for a, b in itertools.permutations("ABC", 2)]
    best = optimize.minimize(lambda x: slow_loss(results, x), np.zeros(4), tol=1e-12)
    ratings = rate(results)
    assert ratings.elo == pytest.approx(K * (best.x[:3] - best.x[:3].mean()), abs=0.01)
    assert ratings.black_advantage.value == pytest.approx(K * best.x[3], abs=0.01)
    for end in ratings.difference("A", "C")[1:]:
        fixed = lambda x, end=end: slow_loss(results, [x[0] + end / K, x[1], x[0], x[2]])  # noqa: E731
        worse = optimize.minimize(fixed, np.zeros(3), tol=1e-12).fun
        assert 2 * (worse - best.fun) == pytest.approx(stats.chi2.ppf(0.95, 1), abs=1e-5)


SWEPT = [
    *[Result("A", "B", 0.0, 0.5)] * 3,
    Result("A", "C", 24.5, 24.5),
    Result("A", "D", 0.5, 0.5),
    Result("C", "B", 0.5, 0.5),
    Result("D", "A", 0.5, 1.0),
    Result("E", "C", 0.0, 4.0),
    Result("E", "A", 2.5, 28.5),
]
"""Strengths lie so far apart that the Hessian is singular to rounding on the way to an end of an interval."""


@settings(max_examples=25)
@example(SWEPT, 0.01, True)
@given(leagues, st.sampled_from([0.01, 0.2, 2.0]), st.booleans())
def test_no_league_gives_nan_or_infinity(results, prior, black_advantage):
    ratings = rate(results, prior=prior, black_advantage=black_advantage)
    assert np.isfinite(ratings.elo).all() and np.isfinite(ratings.covariance).all()
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
    assert np.array_equal(one.covariance, other.covariance)
    other = rate([Result(row.black, row.white, row.games - row.black_points, row.games) for row in results])
    for a, b in itertools.combinations(one.players, 2):
        check_mirrored(one.difference(a, b), other.difference(a, b))


@pytest.mark.parametrize(
    "truth",
    [[0, 10, 1200, 1600, 1700, 2000], [0, 50, 80, 200, 320, 500, 510, 700]],
    ids=["ladder", "league"],
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
        ratings = rate([Result(*pair, rng.binomial(50, chance), 50) for pair, chance in chances.items()])
        for a, b in itertools.combinations(strengths, 2):
            _, low, high = ratings.difference(a, b)
            difference = strengths[a] - strengths[b]
            held.append((low is None or low <= difference) and (high is None or difference <= high))
    assert 0.93 <= np.mean(held) <= 0.98

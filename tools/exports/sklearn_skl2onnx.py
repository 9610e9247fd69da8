"""scikit-learn through skl2onnx."""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from exports.export import Export
from skl2onnx import to_onnx
from skl2onnx.common.data_types import (
    DictionaryType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVC, SVR

EXPORTER = "skl2onnx"
PACKAGES = ("scikit-learn", "skl2onnx", "onnx")

FEATURES = 6
OPSET = {"": 18, "ai.onnx.ml": 3}
_FLOATS = [("features", FloatTensorType([None, FEATURES]))]


def _write(
    path: Path,
    model: Any,
    inputs: list[Any],
    options: Mapping[str, Any] | None = None,
    opset: Mapping[str, int] = OPSET,
    locale: str | None = None,
) -> None:
    chosen: dict[int, Any] = {} if options is None else {id(model): dict(options)}
    if locale is not None:
        chosen[id(model.steps[0][1])] = {"locale": locale}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnx_model = to_onnx(
            model,
            initial_types=inputs,
            options=chosen or None,
            target_opset=dict(opset),
            name=path.stem,
        )
    path.write_bytes(onnx_model.SerializeToString(deterministic=True))


def _data(classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    features = rng.standard_normal((160, FEATURES)).astype(np.float32)
    score = features @ rng.standard_normal((FEATURES, classes))
    return features, score.argmax(1)


def _words() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(12)
    vocabulary = np.array(["alpha", "beta", "gamma", "delta", "epsilon", "zeta"])
    texts = np.array([" ".join(rng.choice(vocabulary, 5)) for _ in range(60)])
    labels = np.array(["yes" if text.count("alpha") + text.count("beta") > 1 else "no"
                       for text in texts])  # fmt: skip
    return texts, labels


def _forest(path: Path) -> None:
    x, y = _data()
    _write(path, RandomForestClassifier(8, max_depth=5, random_state=0).fit(x, y), _FLOATS)


def _boosting(path: Path) -> None:
    x, y = _data()
    model = GradientBoostingRegressor(n_estimators=12, max_depth=3, random_state=0)
    _write(path, model.fit(x, y + x[:, 0]), _FLOATS)


def _isolation(path: Path) -> None:
    x, _ = _data()
    _write(path, IsolationForest(n_estimators=6, random_state=0).fit(x), _FLOATS)


def _logistic(path: Path) -> None:
    x, y = _data()
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
    _write(path, model, _FLOATS, {"zipmap": False})


def _logistic_maps(path: Path) -> None:
    x, y = _data()
    names = np.array(["low", "middle", "high"])[y]
    model = make_pipeline(MinMaxScaler(), Normalizer(), LogisticRegression()).fit(x, names)
    _write(path, model, _FLOATS)


def _svc(path: Path) -> None:
    x, y = _data()
    model = SVC(probability=True, random_state=0).fit(x[:60], y[:60])
    _write(path, model, _FLOATS, {"zipmap": False})


def _svr(path: Path) -> None:
    x, y = _data()
    model = make_pipeline(PolynomialFeatures(2), StandardScaler(), SVR(kernel="poly"))
    _write(path, model.fit(x[:60], y[:60] + x[:60, 1]), _FLOATS)


def _kmeans(path: Path) -> None:
    x, _ = _data()
    model = make_pipeline(StandardScaler(), KMeans(4, n_init=2, random_state=0)).fit(x)
    _write(path, model, _FLOATS)


def _mlp(path: Path) -> None:
    x, y = _data()
    model = make_pipeline(PCA(4), MLPClassifier((24, 12), max_iter=40, random_state=0)).fit(x, y)
    _write(path, model, _FLOATS, {"zipmap": "columns"})


def _neighbours(path: Path) -> None:
    x, y = _data()
    _write(path, KNeighborsClassifier(3).fit(x[:40], y[:40]), _FLOATS, {"zipmap": False})


def _gaussian_process(path: Path) -> None:
    x, y = _data()
    model = GaussianProcessRegressor(RBF(1.5), alpha=0.1).fit(x[:30], y[:30])
    _write(path, model, _FLOATS)


def _voting(path: Path) -> None:
    x, y = _data()
    bins = KBinsDiscretizer(4, encode="ordinal", quantile_method="linear")
    members = [("tree", RandomForestClassifier(3, max_depth=3, random_state=0)),
               ("bayes", GaussianNB())]  # fmt: skip
    model = make_pipeline(
        bins, VotingClassifier(members, voting="soft", flatten_transform=False)
    ).fit(x, y)
    _write(path, model, _FLOATS, {"zipmap": False})


def _linear_old(path: Path) -> None:
    x, y = _data()
    _write(path, LinearRegression().fit(x, y), _FLOATS, opset={"": 9, "ai.onnx.ml": 1})


def _tfidf(path: Path) -> None:
    texts, labels = _words()
    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression())
    model.fit(texts, labels)
    _write(path, model, [("text", StringTensorType([None]))], {"zipmap": False}, locale="C")


def _counts(path: Path) -> None:
    texts, labels = _words()
    model = make_pipeline(CountVectorizer(lowercase=True), MultinomialNB()).fit(texts, labels)
    _write(path, model, [("text", StringTensorType([None]))], locale="C")


def _dictionary(path: Path) -> None:
    rng = np.random.default_rng(16)
    rows = [{"alpha": a, "beta": b, "delta": a - b} for a, b in rng.standard_normal((60, 2))]
    model = make_pipeline(DictVectorizer(sparse=False), LinearRegression())
    model.fit(rows, [2 * row["alpha"] - row["beta"] for row in rows])
    row_type = DictionaryType(StringTensorType([1]), FloatTensorType([1]))
    _write(path, model, [("row", row_type)])


def _columns(path: Path) -> None:
    x, y = _data(2)
    rng = np.random.default_rng(13)
    numbers = x[:, :3].astype(object)
    words = rng.choice(np.array(["alpha", "beta", "gamma"], dtype=object), (len(x), 2))
    table = np.concatenate([numbers, words], 1)
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), [0, 1, 2]),
            ("words", OneHotEncoder(handle_unknown="ignore"), [3, 4]),
        ]
    )
    model = make_pipeline(columns, LogisticRegression()).fit(table, y)
    numbers_type = [(f"number{i}", FloatTensorType([None, 1])) for i in range(3)]
    words_type = [(f"word{i}", StringTensorType([None, 1])) for i in range(2)]
    _write(path, model, [*numbers_type, *words_type], {"zipmap": False})


def _ordinal(path: Path) -> None:
    rng = np.random.default_rng(14)
    words = rng.choice(np.array(["alpha", "beta", "gamma", "delta", ""], dtype=object), (80, 2))
    labels = (words[:, 0] == "alpha").astype(int) + (words[:, 1] == "beta")
    model = make_pipeline(OrdinalEncoder(), RandomForestClassifier(4, random_state=0))
    _write(path, model.fit(words, labels), [("words", StringTensorType([None, 2]))],
           {"zipmap": False})  # fmt: skip


def _integers(path: Path) -> None:
    rng = np.random.default_rng(15)
    table = rng.integers(0, 2, (80, 4))
    model = make_pipeline(OneHotEncoder(sparse_output=False), LinearRegression())
    model.fit(table, table @ np.array([1.0, -2.0, 0.5, 3.0]))
    _write(path, model, [("flags", Int64TensorType([None, 4]))])


def exports() -> list[Export]:
    """All models of this exporter."""
    vectors = {"features": (4, FEATURES)}
    wanted = [
        ("sklearn_forest_zipmap", "random forest with a sequence of maps", _forest, vectors),
        ("sklearn_boosting", "gradient-boosted regression trees", _boosting, vectors),
        ("sklearn_isolation_forest", "isolation forest, trees in float and integer arithmetic",
         _isolation, vectors),
        ("sklearn_logistic", "scaler and logistic regression, plain tensors", _logistic, vectors),
        ("sklearn_logistic_string_maps", "scalers and logistic regression with string labels",
         _logistic_maps, vectors),
        ("sklearn_svc", "support-vector classifier with probabilities", _svc, vectors),
        ("sklearn_svr_polynomial", "polynomial features and a support-vector regressor", _svr,
         vectors),
        ("sklearn_kmeans", "scaler and k-means, labels and distances", _kmeans, vectors),
        ("sklearn_pca_mlp", "PCA and a neural network, one output per class", _mlp, vectors),
        ("sklearn_neighbours", "nearest neighbours by a Scan over distances", _neighbours,
         vectors),
        ("sklearn_gaussian_process", "Gaussian process with double-precision algebra",
         _gaussian_process, vectors),
        ("sklearn_voting", "discretised features, soft vote of trees and Bayes", _voting, vectors),
        ("sklearn_linear_opset9", "linear regression in the first ai.onnx.ml", _linear_old,
         vectors),
        ("sklearn_tfidf", "TF-IDF over words and pairs of words", _tfidf, {"text": (3,)}),
        ("sklearn_word_counts", "word counts and naive Bayes with maps", _counts, {"text": (3,)}),
        ("sklearn_dictionary", "a map of strings to floats as input", _dictionary, {}),
        ("sklearn_columns", "imputed numbers and one-hot strings, five inputs", _columns,
         {**{f"number{i}": (3, 1) for i in range(3)}, **{f"word{i}": (3, 1) for i in range(2)}}),
        ("sklearn_ordinal_strings", "ordinal-encoded strings and a forest", _ordinal,
         {"words": (3, 2)}),
        ("sklearn_onehot_integers", "one-hot integers and linear regression", _integers,
         {"flags": (3, 4)}),
    ]  # fmt: skip
    return [
        Export(name, description, write, shapes=shapes, target="mcm4")
        for name, description, write, shapes in wanted
    ]

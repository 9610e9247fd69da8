"""LightGBM and XGBoost through onnxmltools."""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import onnxmltools
import xgboost
from exports.export import Export
from onnxmltools.convert.common.data_types import FloatTensorType

EXPORTER = "onnxmltools"
PACKAGES = ("lightgbm", "xgboost", "onnxmltools", "onnxconverter-common", "onnx")

FEATURES = 5


def _data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(21)
    features = rng.standard_normal((240, FEATURES)).astype(np.float32)
    return features, (features @ rng.standard_normal((FEATURES, 3))).argmax(1)


def _save(path: Path, model: Any) -> None:
    path.write_bytes(model.SerializeToString(deterministic=True))


def _lightgbm(path: Path, model: Any, **options: object) -> None:
    types = [("features", FloatTensorType([None, FEATURES]))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _save(path, onnxmltools.convert_lightgbm(
            model, path.stem, types, target_opset=15, **options))  # fmt: skip


def _xgboost(path: Path, model: Any) -> None:
    types = [("features", FloatTensorType([None, FEATURES]))]
    _save(path, onnxmltools.convert_xgboost(model, path.stem, types, target_opset=15))


def _lightgbm_classifier(path: Path) -> None:
    x, y = _data()
    model = lightgbm.LGBMClassifier(
        n_estimators=6, num_leaves=8, random_state=0, n_jobs=1, verbose=-1
    )
    _lightgbm(path, model.fit(x, y))


def _lightgbm_split(path: Path) -> None:
    x, y = _data()
    model = lightgbm.LGBMRegressor(
        n_estimators=12, num_leaves=8, random_state=0, n_jobs=1, verbose=-1
    )
    _lightgbm(path, model.fit(x, y + x[:, 0]), split=4)


def _xgboost_classifier(path: Path) -> None:
    x, y = _data()
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=4, random_state=0, n_jobs=1)
    _xgboost(path, model.fit(x, y))


def _xgboost_regressor(path: Path) -> None:
    x, y = _data()
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=4, random_state=0, n_jobs=1)
    _xgboost(path, model.fit(x, y + x[:, 0]))


def exports() -> list[Export]:
    """All models of this exporter."""
    wanted = [
        ("lightgbm_classifier", "boosted trees with a sequence of maps", _lightgbm_classifier),
        ("lightgbm_split_regressor", "boosted trees in three ensembles that are summed",
         _lightgbm_split),
        ("xgboost_classifier", "boosted trees over three classes", _xgboost_classifier),
        ("xgboost_regressor", "boosted regression trees", _xgboost_regressor),
    ]  # fmt: skip
    return [
        Export(name, description, write, shapes={"features": (4, FEATURES)}, target="mcm4")
        for name, description, write in wanted
    ]

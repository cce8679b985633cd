"""
The model itself as a trusted reference: teacher-forced log probabilities through torch, on CPU or GPU.

May touch: torch and transformers (extra `reference`), and the model's files; the only room that knows them. Neither
is imported before a reference is opened.
"""

from soak.probe.reference.model import Precision, ReferenceModel, ReferenceOrder

__all__ = ["Precision", "ReferenceModel", "ReferenceOrder"]

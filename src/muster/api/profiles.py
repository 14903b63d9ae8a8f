"""Whose objects and configuration a scheduler reads."""

from enum import StrEnum


class ProfileName(StrEnum):
    """See `engine.profiles`."""

    MUSTER = "muster"
    """Our own: KAI's objects and words, and our choices where nothing is said."""
    KAI = "kai"
    VOLCANO = "volcano"
    KUBE_BATCH = "kube-batch"
    KUBE_BATCH_02 = "kube-batch-0.2"

    @property
    def speaks_kai(self) -> bool:
        """Whether it reads KAI's objects, and a configuration in KAI's words."""
        return self in (ProfileName.MUSTER, ProfileName.KAI)

    @property
    def system(self) -> str:
        """Whose it is. Pods of another system name it as their scheduler, by this word."""
        return ProfileName.KUBE_BATCH.value if self in KUBE_BATCHES else self.value


KUBE_BATCHES = frozenset((ProfileName.KUBE_BATCH, ProfileName.KUBE_BATCH_02))

"""The bot that plays like a person of a rank: its rank matters, its passes and resignations are a person's."""

from small_nets import *  # noqa

"""A production GPU cluster and its tasks, filled one task after another: how full does it get?"""

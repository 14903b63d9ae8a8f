"""Fair share (KAI's `proportion`): what queues are entitled to, may hold, and may take."""

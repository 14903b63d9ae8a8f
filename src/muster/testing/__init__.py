"""Builders and expectations we ship, so that plugin authors test as we do."""

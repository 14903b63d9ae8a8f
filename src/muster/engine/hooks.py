"""Every extension point of the engine, and how many answers become one."""

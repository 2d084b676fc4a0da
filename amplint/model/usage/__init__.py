"""Facts about objects of a program: casts, frozen models, devices in use."""

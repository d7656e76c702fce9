"""The probe: the small server inside a desktop that acts, observes, runs commands and copies files.

It runs in the desktop's image with nothing but Python's standard library and python-xlib, so modules here import only
those, each other and `sandbox.keys`. Who is who inside a desktop:

::

    spawner   pid 1, root with SETUID, SETGID and KILL only: starts the others, runs commands for the probe
    Xvfb      its own uid: owns the screen's memory
    probe     its own uid: serves the socket, injects input, reads the screen through a descriptor it was handed
    session   the desktop's uid: window manager, applications, accessibility helper; all that the agent can be

A click: `server.py` receives it -> `pointer.py` makes it an X event.
"""

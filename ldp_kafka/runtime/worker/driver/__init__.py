"""What of Faust and of aiokafka is changed, and every private name of theirs that is used for it.

All of it is in subclasses, which `app.App` puts together when a worker is built: nothing is
patched, and another Faust app in the same process is left as it is. `PRIVATE_API` of each module
lists the names; a test looks each of them up, so that a new version of Faust or aiokafka fails by
name. What only makes it faster is in `chunks` and `fetches`, which can be left out.
"""

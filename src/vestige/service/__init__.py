"""The service: a store behind HTTP, with a page that shows what happens in it.

One writer owns the store, and an answer to rows means that they are flushed; see `vestige.service.engine`.
"""

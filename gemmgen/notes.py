def notes(problem, family, config): return ()

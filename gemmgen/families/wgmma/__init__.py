"""Products on Hopper's tensor cores, fed by TMA. Templates: templates/wgmma/."""

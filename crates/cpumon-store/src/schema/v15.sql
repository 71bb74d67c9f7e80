-- Schema version 15: what runs a script, and the name of the user; empty: none, or not known. Meaning: docs/store.md.

ALTER TABLE process_info ADD COLUMN interpreter TEXT NOT NULL DEFAULT '';
ALTER TABLE process_info ADD COLUMN user TEXT NOT NULL DEFAULT '';

-- Processes of older versions were named after their executable. A script that the kernel started by its first line has its
-- name, or 15 bytes of it, as the main thread's name.
UPDATE process_info SET interpreter = name, name = comm
WHERE is_kernel = 0
    AND comm NOT IN ('', 'MainThread', 'node-MainThread', 'main')
    AND rtrim(name, '.-0123456789') IN
        ('python', 'pypy', 'node', 'nodejs', 'java', 'bash', 'sh', 'dash', 'ksh', 'zsh', 'perl', 'ruby', 'dotnet', 'php')
    AND rtrim(comm, '.-0123456789') NOT IN
        ('python', 'pypy', 'node', 'nodejs', 'java', 'bash', 'sh', 'dash', 'ksh', 'zsh', 'perl', 'ruby', 'dotnet', 'php');

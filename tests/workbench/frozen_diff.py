"""A frozen proposal: its patch, its files, and what the gate says of it."""

from __future__ import annotations

from backends.snapshots import CheckRow, Diff, FileChange

PATCH = b"""diff --git a/src/auth/refresh.ts b/src/auth/refresh.ts
index 1111111..2222222 100644
--- a/src/auth/refresh.ts
+++ b/src/auth/refresh.ts
@@ -112,14 +112,16 @@ export class Session {
   private token: Token | null = null;

   /** Returns a token that is valid for at least a minute. */
   async refresh(): Promise<Token> {
-    const t = await load()
-    if (t.expired) rotate()
+    const t = await loadOnce()
+    if (t.expired) await rotateSingleFlight(t, 60)
+    // a second caller waits for the first one's answer
+    this.pending = null
     return t
   }

   private async load(): Promise<Token> {
-    return fetch("/api/token").then((r) => r.json())
+    return fetch("/api/v2/token").then((r) => r.json())
   }
 }

@@ -160,3 +162,4 @@ export function isExpired(t: Token): boolean {
   return t.expires < Date.now()
 }

+export const GRACE_SECONDS = 60
diff --git a/.github/workflows/x.yml b/.github/workflows/x.yml
new file mode 100644
index 0000000..3333333
--- /dev/null
+++ b/.github/workflows/x.yml
@@ -0,0 +1,4 @@
+on: push
+jobs:
+  build:
+    runs-on: ubuntu-latest
diff --git a/package-lock.json b/package-lock.json
index 4444444..5555555 100644
--- a/package-lock.json
+++ b/package-lock.json
@@ -1,4 +1,4 @@
 {
-  "version": "1.0.0",
+  "version": "1.0.1",
   "lockfileVersion": 3
 }
""".replace(b"\n\n", b"\n \n")  # git signs an empty line of context as well; editors take that blank away
CHANGES = (
    FileChange(b"src/auth/refresh.ts", None, "M", 0o100644, 0o100644, "1" * 40, "2" * 40, 6, 3),
    FileChange(b".github/workflows/x.yml", None, "A", 0, 0o100644, "0" * 40, "3" * 40, 4, 0),
    FileChange(b"package-lock.json", None, "M", 0o100644, 0o100644, "4" * 40, "5" * 40, 1, 1),
)
DIFF = Diff("3f2a9c1d" + "0" * 32, "9c1d" * 10, CHANGES, PATCH, ())
CHECKS = (
    CheckRow("ci-file", "warn", "a CI file is added: it runs with secrets", b".github/workflows/x.yml"),
    CheckRow("lock-file", "warn", "a lock file changed: so does what is installed", b"package-lock.json"),
    CheckRow("nested-git", "pass", "no nested repository", None),
    CheckRow("symlinks", "pass", "no symlink points outside the tree", None),
    CheckRow("bidi", "pass", "no bidirectional or invisible characters", None),
)

import { spawn } from "node:child_process"

/**
 * Waits until standard input ends, then stops the PostgreSQL processes of a directory and removes it. It repeats both,
 * because a server that was starting may still write its files. An immediate shutdown (SIGQUIT) is enough: nothing
 * reads the data again.
 *
 * Processes are found by their command line, which contains the directory, and not by the number in `postmaster.pid`,
 * which could belong to another program by then.
 */
const SCRIPT = `
read -r directory || exit 0
cat >/dev/null
servers() {
  if [ -r /proc/self/cmdline ]; then
    for file in $(grep -lsF -- "$directory" /proc/[0-9]*/cmdline); do
      program=$(tr '\\0' '\\n' <"$file" 2>/dev/null | head -n 1)
      pid=\${file#/proc/}
      case "$program" in
        postgres|initdb|*/postgres|*/initdb) echo "\${pid%/cmdline}" ;;
      esac
    done
  else
    ps -A -o pid= -o command= | while read -r pid program rest; do
      case "$program $rest" in
        *postgres*"$directory"*|*initdb*"$directory"*) echo "$pid" ;;
      esac
    done
  fi
}
signal=QUIT
rounds=0
while [ "$rounds" -lt 100 ]; do
  running=$(servers)
  [ -z "$running" ] && [ ! -d "$directory" ] && exit 0
  [ -z "$running" ] || kill -"$signal" $running 2>/dev/null
  rm -rf -- "$directory" 2>/dev/null
  rounds=$((rounds + 1))
  [ "$rounds" -lt 30 ] || signal=KILL
  sleep 0.1
done
`

/** A process that removes a directory, with the PostgreSQL in it, once this process has ended or has released it. */
export interface DirectoryGuard {
  /** Ends the guard. It removes the rest of the directory, then exits. */
  readonly release: () => Promise<void>
}

/**
 * Starts a guard. However this process ends, by a signal that it cannot handle too, the guard's standard input ends with it. It runs in a
 * session of its own, so that Ctrl-C, which signals all processes of the terminal, does not end it.
 *
 * Where there is no POSIX shell, as on Windows, nothing is guarded, and the directory of a killed process is removed by the next run.
 */
export const startGuard = (directory: string): DirectoryGuard => {
  const child = spawn("/bin/sh", ["-c", SCRIPT], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
    windowsHide: true,
    cwd: "/",
    env: { PATH: "/usr/bin:/bin:/usr/sbin:/sbin", LC_ALL: "C" }
  })
  const ended = new Promise<void>((resolve) => {
    child.once("exit", () => resolve())
    child.once("error", () => resolve())
  })
  // The guard may have been killed; the next run then removes the directory.
  child.stdin.on("error", () => {})
  child.stdin.write(`${directory}\n`)
  // Neither the child nor the pipe keeps this process running.
  child.unref()
  if ("unref" in child.stdin && typeof child.stdin.unref === "function") child.stdin.unref()
  return {
    release: () => {
      child.ref()
      child.stdin.end()
      return ended
    }
  }
}

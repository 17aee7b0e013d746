import { Effect } from "effect"

/** `skipped`: it does not apply here, or a check that it needs failed. */
export type CheckStatus = "ok" | "warning" | "failure" | "skipped"

/** The result of a check. */
export interface Finding {
  readonly status: CheckStatus
  /** One line about the state, without secrets. */
  readonly summary: string
  /** What to do about it, in one sentence; null if there is nothing to do. */
  readonly advice: string | null
}

/** A finding with the name of its check and its duration. */
export interface CheckResult extends Finding {
  readonly name: string
  readonly ms: number
}

export const ok = (summary: string): Finding => ({ status: "ok", summary, advice: null })
export const skipped = (summary: string): Finding => ({ status: "skipped", summary, advice: null })
export const warning = (summary: string, advice: string): Finding => ({ status: "warning", summary, advice })
export const failure = (summary: string, advice: string): Finding => ({ status: "failure", summary, advice })

/** A number with its noun, and verb if there is one. */
export const plural = (count: number, one: string, several: string): string =>
  `${count} ${count === 1 ? one : several}`

/** Longest duration of one check. */
const CHECK_MILLIS = 10_000

/** Runs a check. One that takes too long, or that has a fault of its own, is a failure without the fault's text, which may hold secrets. */
export const runCheck = <R>(
  name: string,
  check: Effect.Effect<Finding, unknown, R>
): Effect.Effect<CheckResult, never, R> =>
  Effect.suspend(() => {
    const startedAt = performance.now()
    return check.pipe(
      Effect.timeoutOrElse({
        duration: CHECK_MILLIS,
        orElse: () =>
          Effect.succeed(
            failure(
              `no result within ${CHECK_MILLIS / 1_000} seconds`,
              "Check that what it looks at responds, then run the command again."
            )
          )
      }),
      Effect.catchCause(() =>
        Effect.succeed(
          failure("the check itself failed", "Run the command again, and report it if it fails again.")
        )
      ),
      Effect.map((finding) => ({ name, ...finding, ms: Math.round(performance.now() - startedAt) }))
    )
  })

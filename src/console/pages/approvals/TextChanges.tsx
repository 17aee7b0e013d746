import type { Schema } from "effect"
import { useMemo } from "react"
import type { EarlierStep } from "../../../api/Console.ts"
import { LineChanges } from "../../ui/code/LineChanges.tsx"
import { TimeOfDay } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { findTextChanges } from "./findTextChanges.ts"

/** An earlier step of the session. */
export interface ComparedStep extends Pick<EarlierStep, "step_id" | "requested_at"> {
  readonly args: Schema.Json | undefined
}

/**
 * The lines by which texts of the arguments differ from those that they replace. It adds to the arguments, which are shown whole: nothing has
 * to be read here.
 */
export default function TextChanges({
  args,
  steps
}: {
  readonly args: Schema.Json
  /** Earlier steps with the same tool, oldest first. */
  readonly steps: ReadonlyArray<ComparedStep>
}) {
  const changes = useMemo(
    () =>
      findTextChanges(
        args,
        steps.map((step) => step.args)
      ),
    [args, steps]
  )
  return changes.length === 0 ? null : (
    <section aria-label="Changed texts">
      <h3>Changed texts</h3>
      {changes.map(({ beforePath, changes: lines, path, step }) => {
        const earlier = step === undefined ? undefined : steps[step]
        return (
          <div key={path} className="text-change">
            <p className="small">
              <code>
                <UntrustedText text={path} />
              </code>{" "}
              compared with{" "}
              {earlier === undefined ? (
                <code>
                  <UntrustedText text={beforePath} />
                </code>
              ) : (
                <>
                  the step <UntrustedText text={earlier.step_id} /> at{" "}
                  <TimeOfDay time={earlier.requested_at} />
                </>
              )}
            </p>
            <LineChanges changes={lines} />
          </div>
        )
      })}
    </section>
  )
}

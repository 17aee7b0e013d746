import { Result, type Schema } from "effect"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { Button } from "../../ui/Button.tsx"
import { Diff, diffFields } from "../../ui/Diff.tsx"
import { JsonField } from "../../ui/JsonField.tsx"
import { formatJson, parseJsonObject } from "../../ui/jsonText.ts"

/** The arguments of a step, if a reviewer can propose others: a JSON object, or none. */
export const proposableArguments = (value: Schema.Json | undefined): JsonObject | undefined => {
  if (value === undefined) return {}
  const parsed = parseJsonObject(JSON.stringify(value))
  return Result.isSuccess(parsed) ? parsed.success : undefined
}

/** The proposal of the editor's text: arguments, or why it proposes none. */
export const readProposal = (text: string, original: JsonObject): Result.Result<JsonObject, string> =>
  Result.flatMap(parseJsonObject(text), (proposed) =>
    diffFields(original, proposed).some(({ kind }) => kind !== "same")
      ? Result.succeed(proposed)
      : Result.fail("Change something: these are the arguments of the step.")
  )

/** An editor for the arguments that a rejection proposes, with what differs from the step's. Opened by a button. */
export const ProposalField = ({
  onChange,
  original,
  text
}: {
  readonly original: JsonObject
  /** The text of the editor; undefined while it is closed. */
  readonly text: string | undefined
  readonly onChange: (text: string | undefined) => void
}) => {
  if (text === undefined) {
    return (
      <div>
        <Button small onClick={() => onChange(formatJson(original))}>
          Propose other arguments
        </Button>
      </div>
    )
  }
  const proposal = readProposal(text, original)
  return (
    <div className="proposal">
      <JsonField
        label="Proposed arguments"
        hint="The agent may use exactly these arguments once, within an hour, if you could approve that step alone."
        rows={8}
        text={text}
        error={Result.isFailure(proposal) ? proposal.failure : undefined}
        onChange={onChange}
      />
      {Result.isFailure(proposal) ? null : <ProposalDiff original={original} proposed={proposal.success} />}
      <div>
        <Button small kind="bare" onClick={() => onChange(undefined)}>
          Propose nothing
        </Button>
      </div>
    </div>
  )
}

/** The fields in which proposed arguments differ. */
export const ProposalDiff = ({
  original,
  proposed
}: {
  readonly original: JsonObject
  readonly proposed: JsonObject
}) => {
  const changed = diffFields(original, proposed).filter(({ kind }) => kind !== "same")
  const pick = (from: JsonObject): JsonObject =>
    Object.fromEntries(
      changed.flatMap(({ name }): ReadonlyArray<readonly [string, Schema.Json]> => {
        const value = from[name]
        return value === undefined ? [] : [[name, value]]
      })
    )
  return <Diff before={pick(original)} beforeTitle="Step" after={pick(proposed)} afterTitle="Proposal" />
}

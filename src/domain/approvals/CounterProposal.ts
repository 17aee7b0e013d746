import { Schema } from "effect"
import { StepId } from "../Ids.ts"
import { JsonValue } from "../json/JsonValue.ts"
import { timestamp } from "../Time.ts"

/** Arguments that a reviewer proposes: a JSON object. */
export const ProposedArguments = Schema.Record(Schema.String, JsonValue)
export type ProposedArguments = typeof ProposedArguments.Type

export const CounterProposal = Schema.Struct({
  arguments: Schema.optionalKey(JsonValue).annotateKey({
    description:
      "The proposed arguments. Absent in events and in results of several decisions, which have no arguments."
  }),
  expires_at: timestamp(
    "Until when a step with these arguments is allowed: an hour after the rejection, or until the session is closed, whichever comes first."
  ),
  used_by: Schema.NullOr(StepId).annotateKey({
    description: "The step that it allowed. It allows one. Null if there is none yet."
  })
}).annotate({
  identifier: "CounterProposal",
  description:
    "Arguments that a reviewer proposed with a rejection. One later step of the session with the same tool, action class and exactly these arguments is allowed without another question."
})
export type CounterProposal = typeof CounterProposal.Type

import { Schema } from "effect"

/** A rules command cannot do its work: the file, the flags or the service's answer do not allow it. */
export class RulesTrouble extends Schema.TaggedError<RulesTrouble>()("RulesTrouble", {
  message: Schema.String
}) {}

import { JsonPointer, Predicate, Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { DatasetId, ReleaseId } from "../Ids.ts"
import { JsonValue } from "../json/JsonValue.ts"
import { diffLines } from "./diffLines.ts"
import type { Provider } from "./Provider.ts"
import type { Release } from "./Task.ts"

export const InstructionChange = Schema.Struct({
  op: documentedEnum({
    same: "Both releases have these lines.",
    added: "Only the newer release has these lines.",
    removed: "Only the older release has these lines."
  }),
  text: Schema.String.annotateKey({ description: "One or more lines, without the last line break." })
}).annotate({
  identifier: "InstructionChange",
  description: "Lines of instructions, and whether they changed."
})

export const SettingChange = Schema.Struct({
  setting: Schema.String.annotateKey({
    description: "JSON Pointer of the setting in `provider`, such as `/model`."
  }),
  before: JsonValue.annotateKey({ description: "Its value in the older release. Null also if it had none." }),
  after: JsonValue.annotateKey({ description: "Its value in the newer release. Null also if it has none." })
}).annotate({ identifier: "SettingChange", description: "A setting of the provider that changed." })
export type SettingChange = typeof SettingChange.Type

const dataset = (which: string) =>
  Schema.NullOr(DatasetId).annotateKey({
    description: `The ${which} release's dataset version. Null if it has none.`
  })

export const ReleaseChanges = Schema.Struct({
  release_id: ReleaseId.annotateKey({ description: "The newer release." }),
  since: Schema.NullOr(ReleaseId).annotateKey({
    description:
      "The release that it is compared with. Null for a task's first release, of which everything is new."
  }),
  instructions: Schema.Array(InstructionChange).annotateKey({
    description: "The lines of both instructions, in order."
  }),
  provider: Schema.Array(SettingChange).annotateKey({
    description: "The settings of the provider that changed. Empty if none did."
  }),
  dataset: Schema.Struct({ before: dataset("older"), after: dataset("newer") }).annotateKey({
    description: "The dataset versions of both releases."
  })
}).annotate({ identifier: "ReleaseChanges", description: "The difference between two releases of a task." })
export type ReleaseChanges = typeof ReleaseChanges.Type

/** The difference between a release and an earlier one; none: everything of the release is new. */
export const releaseChanges = (release: Release, since: Release | undefined): ReleaseChanges => ({
  release_id: release.id,
  since: since?.id ?? null,
  ...configurationChanges(release, since)
})

/** What answers runs: the part of a release that a candidate has too. */
type Configuration = Pick<Release, "instructions" | "provider" | "dataset_id">

/** The difference between what answers runs and an earlier one; none: everything of it is new. */
export const configurationChanges = (
  after: Configuration,
  before: Configuration | undefined
): Pick<ReleaseChanges, "instructions" | "provider" | "dataset"> => ({
  instructions: diffLines(before?.instructions ?? "", after.instructions),
  provider: settingChanges(before?.provider, after.provider),
  dataset: { before: before?.dataset_id ?? null, after: after.dataset_id }
})

const settingChanges = (before: Provider | undefined, after: Provider): ReadonlyArray<SettingChange> => {
  const older = new Map(before === undefined ? [] : settingsOf(before))
  const newer = new Map(settingsOf(after))
  return [...new Set([...older.keys(), ...newer.keys()])].toSorted().flatMap((setting) => {
    const [from, to] = [older.get(setting) ?? null, newer.get(setting) ?? null]
    return from === to ? [] : [{ setting, before: from, after: to }]
  })
}

type Setting = string | number | boolean | null

/** The settings of a provider by JSON Pointer. Each is a single value or an object of such. */
const settingsOf = (
  settings: object,
  at: ReadonlyArray<string> = []
): ReadonlyArray<readonly [string, Setting]> =>
  Object.entries(settings).flatMap(([name, value]: [string, unknown]) => {
    const path = [...at, name]
    if (Predicate.isReadonlyObject(value)) return settingsOf(value, path)
    const isSetting = typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    return [[`/${path.map(JsonPointer.escapeToken).join("/")}`, isSetting ? value : null] as const]
  })

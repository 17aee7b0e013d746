import { type Array as Arr, Schema } from "effect"

/** What a key may do. The names are the contract's; each operation of the API names the one it asks for. */
export const Scope = Schema.Literals([
  "feedback.write",
  "feedback.read",
  "datasets.write",
  "org_config.read",
  "org_config.write",
  "tasks.read",
  "tasks.write",
  "tasks.run",
  "datasets.read",
  "sessions.read",
  "sessions.write",
  "approvals.read",
  "approvals.decide",
  "approvals.admin",
  "rules.write",
  "keys.write"
])
export type Scope = typeof Scope.Type

/** Every scope, in the order of the contract. */
export const scopes: Arr.NonEmptyReadonlyArray<Scope> = Scope.literals

/** A named set of scopes that a key can be made with. */
export const Preset = Schema.Literals(["admin", "reviewer", "runtime", "integration"])
export type Preset = typeof Preset.Type

const presets: Record<Preset, ReadonlyArray<Scope>> = {
  admin: scopes,
  reviewer: [
    "feedback.read",
    "feedback.write",
    "tasks.read",
    "datasets.read",
    "sessions.read",
    "approvals.read",
    "approvals.decide"
  ],
  runtime: ["tasks.read", "tasks.run", "sessions.read", "sessions.write", "approvals.read"],
  integration: ["feedback.write", "feedback.read"]
}

/** The scopes of a preset. */
export const presetScopes = (preset: Preset): ReadonlyArray<Scope> => presets[preset]

import type { OrgId } from "../../../domain/Ids.ts"

/** A memory budget in characters, shared by all organizations. */
export interface FairBudget {
  /** Whether the organization's addition fits. */
  readonly fits: (org_id: OrgId, characters: number) => boolean
  readonly reserve: (org_id: OrgId, characters: number) => void
  readonly release: (org_id: OrgId, characters: number) => void
}

/** An organization may use at most half of the budget, so that its backlog cannot starve all others. */
export const makeFairBudget = (size: number): FairBudget => {
  const used = new Map<OrgId, number>()
  let total = 0
  return {
    fits: (org_id, characters) =>
      total + characters <= size && (used.get(org_id) ?? 0) + characters <= size / 2,
    reserve: (org_id, characters) => {
      used.set(org_id, (used.get(org_id) ?? 0) + characters)
      total += characters
    },
    release: (org_id, characters) => {
      const remaining = (used.get(org_id) ?? 0) - characters
      if (remaining > 0) used.set(org_id, remaining)
      else used.delete(org_id)
      total -= characters
    }
  }
}

import { cloudKinds } from "./secretKinds/cloudKinds.ts"
import { commerceKinds } from "./secretKinds/commerceKinds.ts"
import { developerKinds } from "./secretKinds/developerKinds.ts"
import { modelKinds } from "./secretKinds/modelKinds.ts"
import type { SecretKind } from "./secretKinds/SecretKind.ts"

/** Every kind of secret that has a fixed prefix. */
export const secretKinds: ReadonlyArray<SecretKind> = [
  ...developerKinds,
  ...cloudKinds,
  ...modelKinds,
  ...commerceKinds
]

/** Clouds, hosting, networks, databases and vaults; columns as in {@link parseKinds}. */
export const cloudKinds = `
AWS | AKIA ASIA ABIA ACCA | {N16}
AWS | A3T | {N17}
AWS Bedrock | ABSK | {B109-269}{P0-2}
AWS Bedrock | bedrock-api-key- | {B120-400}{P0-2}
Amazon SP, MWS | amzn.mws. | {uuid}
Amazon SP, MWS | amzn1.oa2-cs.v1. | {h64}
AWS AppSync | da2- | {n26}
AWS session | FwoGZXIvYXdz IQoJb3JpZ2lu AQoDYXdz AQoEXAMPLE | {B200-1200}{P0-2}
Google OAuth | GOCSPX- | {U28}
Google OAuth | ya29. | {D60-400}
Google OAuth | 1//0 1// | {U60-120}
Google Cloud storage | GOOG1E | {N55}
Google Cloud storage | GOOG | {N20}
Google AI, Maps | AIza | {U35}
Firebase messaging | AAAA | {U7}:{U140}
Alibaba Cloud | LTAI | {A17-21}
Alibaba Cloud | STS. | {A24-40}
Alibaba Cloud | CAIS | {B200-700}{P0-2}
Tencent Cloud | AKID | {A32}
Volcengine | AKLT AKTP | {B44-64}{P0-2}
Baidu Cloud | bce-v3/ALTAK- | {A21}/{h40}
Yandex Cloud | AQVN | {U35-38}
Yandex Cloud | YC | {U38}
Yandex Cloud | t1. | {U100-400}{P0-2}.{U86}{P0-2}
Yandex OAuth | y0_ y0__ y1_ y2_ y3_ | {U55}
DigitalOcean | dop_v1_ doo_v1_ dor_v1_ dosp_v1_ | {h64}
Heroku | HRKU- | AA{U58} {uuid}
Fly.io | fo1_ | {U43}
Fly.io | fm1r_ fm1a_ fm2_ | {B100-700}{P0-3}
Render | rnd_ | {A28}
Netlify | nfp_ nfc_ nfo_ nfu_ nfb_ | {A36}
Deno Deploy | ddp_ ddw_ ddo_ | {A36}
Cloudflare | cfut_ cfat_ cfk_ | {A40}{h8}
Cloudflare | cf_ | {U40}
Cloudflare origin CA | v1.0- | {h24}-{h146} {U171}
Scaleway | SCW | {N17}
Scaleway | scw_ | {uuid}
Exoscale | EXO | {A24-27}
UpCloud | ucat_ | {A26}
Salad Cloud | salad_cloud_ | {A1-7}_{A24-235}
Supabase | sbp_ sbp_oauth_ sbp_v0_ | {A40}
Supabase | sb_secret_ | {U22}_{U8} {U31}
PlanetScale | pscale_tkn_ pscale_pw_ pscale_oauth_ pscale_app_secret_ | {D32-64}
Neon | napi_ | {n64}
Aiven | AVNS_ | {U19}
Aiven | aivenv1 | {D150-300}
CockroachDB | CCDB1_ | {A22}_{A40}
MongoDB Atlas | mdb_sa_sk_ | {U40}
DataStax Astra | AstraCS: | {A24}:{h64}
ClickHouse Cloud | 4b1d | {A38}
Confluent Cloud | cflt | {B60}
Elastic | essu_ essa_ | {B60-120}{P0-2}
Databricks | dapi dkea dose dsapi doauth | {h32}
dbt | dbtu_ dbtc_ dbts_ | {D40-60}
Prefect | pnu_ pnb_ | {A36}
Pulumi | pul- | {h40}
HashiCorp Vault | hvs. hvb. hvr. | {U24-200}
HashiCorp Vault | s. b. r. | {A24}
HashiCorp Terraform | - | {A14}.atlasv1.{U60-70}
HashiCorp Terraform | atlasv1. | {U60-70}
Doppler | dp.pt. dp.sa. dp.scim. dp.audit. dp.ct. | {A40-44}
Doppler | dp.st. | {U2-35}.{A40-44} {A40-44}
Infisical | st. | {h24}.{h32}.{h32}
1Password | A3- | {N6}-{N11}-{N5}-{N5}-{N5} {N6}-{N6}-{N5}-{N5}-{N5}-{N5}
1Password | ops_eyJ | {B250-900}{P0-3}
Tailscale | tskey-auth- tskey-api- tskey-client- tskey-scim- tskey-webhook- | {A10-17}-{A24-34} {A12-64}
Tailscale | tskey- | {l2-16}-{A10-17}-{A24-34}
NetBird | nbp_ | {A36}
Defined Networking | dnkey- | {U26}-{U52} {U79}
ngrok | cr_ ak_ | {A27}
age | AGE-SECRET-KEY-1 | {C58}
age | AGE-PLUGIN- | {N4-20}-1{C40-120}
OpenShift | sha256~ | {U43}
Rancher | token- | {n5}:{n54}
Kubernetes, K3s | K10 | {h64}::server:{h32} {h64}::{V12-100}
Docker Swarm | SWMTKN-1- | {n50}-{n25}
Docker Swarm | SWMKEY-1- | {B43}
JFrog | AKCp | {A69}
JFrog | AKC | {A60-70}
JFrog | cmVmdGtu | {A56}
JFrog | cmVmd | {A59}
Endor Labs | endr+ | {U16}
InfluxDB | apiv3_ | {U86}
Akamai | akab- | {n16}-{n16}
Microsoft Entra | 0.A 1.A | {U50-200}.Ag{U250-1000}
NATS | SUA SAA SCA SNA SOA SXA | {S55}
NATS | SU SA SC SN SO SX | {S56}
Azure | - | {B32-76}+ASt{B6-10}{P0-2} {B32-76}+ACR{B6-10}{P0-2} {B32-76}+ABa{B6-10}{P0-2} {B32-76}+AMC{B6-10}{P0-2}
Azure | - | {B32-76}+ARm{B6-10}{P0-2} {B32-76}+ASb{B6-10}{P0-2} {B32-76}+AEh{B6-10}{P0-2} {B32-76}+ARe{B6-10}{P0-2}
Azure | - | {B32-76}+AES{B6-10}{P0-2} {B32-76}+APR{B6-10}{P0-2} {B32-76}ASsb{B4-10}{P0-2} {U32-80}AzFu{U4-10}{P0-2}
Azure | - | {B32-80}ACDb{B4-10}{P0-2} {B32-80}AIoT{B4-10}{P0-2} {B32-80}APIM{B4-10}{P0-2} {B32-80}AzCa{B4-10}{P0-2}
Azure | - | {B32-80}AzSe{B4-10}{P0-2} {B32-80}AzEv{B4-10}{P0-2} {B32-80}AzRe{B4-10}{P0-2} {B32-80}AzAp{B4-10}{P0-2}
Azure | - | {A40-60}JQQJ9{A20-40} {A76}AZDO{A4} {E3}{d1}Q~{E28-36}
`

// Made from src/domain/protocols by `npm run console-api`.

/** One field of an endpoint, under its name in the API. */
export interface EndpointField {
  name: string;
  label: string;
  kind?: 'number' | 'secret' | 'host-keys' | 'lines' | 'yes-no' | readonly string[];
  hint?: string;
  placeholder?: string;
  /** The value in the form of a new endpoint. */
  initial?: string;
}

export interface ProtocolForm {
  label: string;
  server: readonly EndpointField[];
  /** Ways to sign in; an endpoint has one. */
  signIn: Readonly<Record<string, { label: string; fields: readonly EndpointField[] }>>;
  options: readonly EndpointField[];
  /** The hops that a connection can take. */
  via: readonly ('ssh' | 'http' | 'socks5')[];
  /** The server and folder in one line; `{field}` stands for the value of a field. */
  address: string;
}

export const PROTOCOLS = {
  sftp: {"label":"SFTP","server":[{"name":"host","label":"Host","placeholder":"files.example.com"},{"name":"port","label":"Port","kind":"number","placeholder":"22"},{"name":"base_path","label":"Base path","initial":"/","hint":"Transfers can reach only files below this folder"},{"name":"username","label":"User name"},{"name":"host_keys","label":"Host keys","kind":"host-keys","placeholder":"SHA256:... 2027-06-30","hint":"A fingerprint in each line, and the day or time it expires, if it does. Leave empty: the test then shows the key and asks you to accept it"}],"signIn":{"password":{"label":"Password","fields":[{"name":"password","label":"Password","kind":"secret"}]},"private_key":{"label":"Private key","fields":[{"name":"private_key","label":"Private key","kind":"lines","placeholder":"-----BEGIN OPENSSH PRIVATE KEY-----"},{"name":"passphrase","label":"Passphrase","kind":"secret","hint":"Needed only if the key has one"}]},"private_key_and_password":{"label":"Private key and password","fields":[{"name":"private_key","label":"Private key","kind":"lines","placeholder":"-----BEGIN OPENSSH PRIVATE KEY-----"},{"name":"passphrase","label":"Passphrase","kind":"secret","hint":"Needed only if the key has one"},{"name":"password","label":"Password","kind":"secret"}]}},"options":[],"via":["ssh","http","socks5"],"address":"{host}:{port}{base_path}"},
  ftps: {"label":"FTPS","server":[{"name":"host","label":"Host","placeholder":"files.example.com"},{"name":"tls","label":"TLS","kind":["explicit","implicit"],"hint":"Explicit TLS starts in plain text and switches to TLS before it signs in"},{"name":"port","label":"Port","kind":"number","hint":"Leave empty to use 21 (explicit TLS) or 990 (implicit)"},{"name":"base_path","label":"Base path","initial":"/","hint":"Transfers can reach only files below this folder"},{"name":"username","label":"User name"}],"signIn":{"password":{"label":"Password","fields":[{"name":"password","label":"Password","kind":"secret"}]}},"options":[{"name":"ca_pem","label":"CA certificate","kind":"lines","placeholder":"-----BEGIN CERTIFICATE-----","hint":"Needed only if your own CA signed the server’s certificate"}],"via":[],"address":"{host}:{port}{base_path}"},
  s3: {"label":"S3","server":[{"name":"bucket","label":"Bucket"},{"name":"prefix","label":"Prefix","placeholder":"incoming/","hint":"Transfers can reach only names that begin with this prefix"},{"name":"region","label":"Region","initial":"us-east-1"},{"name":"endpoint_url","label":"Service URL","placeholder":"https://s3.example.com","hint":"Leave empty to use the Amazon S3 URL of the region"}],"signIn":{"access_key":{"label":"Access key","fields":[{"name":"access_key_id","label":"Access key id"},{"name":"secret_access_key","label":"Secret access key","kind":"secret"}]}},"options":[{"name":"force_path_style","label":"The bucket is in the path, not in the host name","kind":"yes-no"},{"name":"storage_class","label":"Storage class","placeholder":"STANDARD"},{"name":"sse","label":"Encryption at rest","kind":["","AES256","aws:kms"]},{"name":"sse_kms_key_id","label":"KMS key id","hint":"For encryption with aws:kms"},{"name":"ca_pem","label":"CA certificate","kind":"lines","placeholder":"-----BEGIN CERTIFICATE-----","hint":"Needed only if your own CA signed the server’s certificate"}],"via":["http","socks5"],"address":"{bucket}/{prefix}"},
  azure: {"label":"Azure Blob","server":[{"name":"account","label":"Storage account"},{"name":"container","label":"Container"},{"name":"prefix","label":"Prefix","placeholder":"incoming/","hint":"Transfers can reach only names that begin with this prefix"},{"name":"endpoint_url","label":"Service URL","hint":"Leave empty to use https://ACCOUNT.blob.core.windows.net"}],"signIn":{"account_key":{"label":"Account key","fields":[{"name":"account_key","label":"Account key","kind":"secret"}]},"sas_token":{"label":"SAS token","fields":[{"name":"sas_token","label":"SAS token","kind":"secret"}]}},"options":[{"name":"ca_pem","label":"CA certificate","kind":"lines","placeholder":"-----BEGIN CERTIFICATE-----","hint":"Needed only if your own CA signed the server’s certificate"}],"via":["http","socks5"],"address":"{account}/{container}/{prefix}"},
} satisfies Record<string, ProtocolForm>;

package plugins

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Names of the TLS files in an instance folder.
const (
	CAFile         = "ca.pem"
	ServerCertFile = "server.pem"
	ServerKeyFile  = "server.key"
	ClientCertFile = "client.pem"
	ClientKeyFile  = "client.key"
)

// serverName is the name in the plugin's certificate. It is the same for all:
// what tells instances apart is their authority.
const serverName = "plugin.codex-mmo.invalid"

// certificateLife is longer than any session. The files, not their dates, are
// what ends with the instance.
const certificateLife = 10 * 365 * 24 * time.Hour

// maxPEM bounds what is read of a TLS file, in bytes.
const maxPEM = 64 << 10

// WriteTLS makes an authority for one plugin instance and leaves both sides'
// certificates and keys in dir, mode 0600. The authority's own key is
// forgotten, so nobody can be added later. It refuses to replace a file.
func WriteTLS(dir string, now time.Time) error {
	ca, err := newAuthority(now)
	if err != nil {
		return fmt.Errorf("make the plugin's certificates: %w", err)
	}
	server, err := ca.issue(2, x509.ExtKeyUsageServerAuth, serverName)
	if err != nil {
		return fmt.Errorf("make the plugin's certificates: %w", err)
	}
	client, err := ca.issue(3, x509.ExtKeyUsageClientAuth, "")
	if err != nil {
		return fmt.Errorf("make the plugin's certificates: %w", err)
	}
	for _, file := range []struct {
		name string
		data []byte
	}{
		{CAFile, pemBlock("CERTIFICATE", ca.cert.Raw)},
		{ServerCertFile, server.cert},
		{ServerKeyFile, server.key},
		{ClientCertFile, client.cert},
		{ClientKeyFile, client.key},
	} {
		if err := writePrivate(filepath.Join(dir, file.name), file.data); err != nil {
			return fmt.Errorf("write the plugin's certificates: %w", err)
		}
	}
	return nil
}

// ServerTLS returns the plugin's side of the mutual TLS of an instance folder.
func ServerTLS(dir string) (*tls.Config, error) {
	pool, cert, err := readTLS(dir, ServerCertFile, ServerKeyFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
	}, nil
}

// ClientTLS returns the caller's side of the mutual TLS of an instance folder.
func ClientTLS(dir string) (*tls.Config, error) {
	pool, cert, err := readTLS(dir, ClientCertFile, ClientKeyFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		RootCAs:      pool,
		ServerName:   serverName,
	}, nil
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "codex-mmo plugin instance"},
		NotBefore:             now.Add(-time.Hour), // clocks step back
		NotAfter:              now.Add(certificateLife),
		IsCA:                  true,
		MaxPathLenZero:        true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	return &authority{cert: cert, key: key}, err
}

// issued is a certificate and its key in PEM.
type issued struct{ cert, key []byte }

func (a *authority) issue(serial int64, usage x509.ExtKeyUsage, name string) (*issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: "codex-mmo"},
		NotBefore:    a.cert.NotBefore,
		NotAfter:     a.cert.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{usage},
	}
	if name != "" {
		template.DNSNames = []string{name}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &issued{cert: pemBlock("CERTIFICATE", raw), key: pemBlock("PRIVATE KEY", private)}, nil
}

func readTLS(dir, certFile, keyFile string) (*x509.CertPool, tls.Certificate, error) {
	var files [3][]byte
	for i, name := range []string{CAFile, certFile, keyFile} {
		data, err := readPrivate(filepath.Join(dir, name))
		if err != nil {
			return nil, tls.Certificate{}, fmt.Errorf("read the plugin's certificates: %w", err)
		}
		files[i] = data
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(files[0]) {
		return nil, tls.Certificate{}, fmt.Errorf("read the plugin's certificates: no certificate in %s", filepath.Join(dir, CAFile))
	}
	cert, err := tls.X509KeyPair(files[1], files[2])
	if err != nil {
		return nil, tls.Certificate{}, fmt.Errorf("read the plugin's certificates in %s: %w", dir, err)
	}
	return pool, cert, nil
}

func pemBlock(kind string, raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})
}

func writePrivate(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Chmod(0o600), f.Close()) // whatever the umask was
}

func readPrivate(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return io.ReadAll(io.LimitReader(f, maxPEM))
}

package lab

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is the certificate authority of one cluster. Each has its own: a
// credential or a trust that crosses clusters by mistake must fail.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
	validFor         = 365 * 24 * time.Hour
)

// createPKI writes the authority, the API server's certificate and the key pair
// of the service account tokens into dir.
func createPKI(dir, cluster string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ca, err := newAuthority(dir, cluster)
	if err != nil {
		return nil, err
	}
	serving := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
		NotAfter:    time.Now().Add(validFor),
	}
	cert, key, err := ca.issue(serving)
	if err != nil {
		return nil, err
	}
	if err := writeFiles(dir, map[string][]byte{"apiserver.crt": cert, "apiserver.key": key}); err != nil {
		return nil, err
	}
	if err := ca.writeClient(dir, kubeletClient); err != nil {
		return nil, err
	}
	return ca, createServiceAccountKey(dir)
}

// kubeletClient is who the API server is at the kubelets.
const kubeletClient = "kube-apiserver-kubelet-client"

func (a *authority) writeClient(dir, user string) error {
	cert, key, err := a.client(user, nil, validFor)
	if err != nil {
		return err
	}
	return writeFiles(dir, map[string][]byte{user + ".crt": cert, user + ".key": key})
}

func newAuthority(dir, cluster string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "lab-" + cluster},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(validFor),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the authority of %s: %w", cluster, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der})
	if err := writeFiles(dir, map[string][]byte{"ca.crt": certPEM, "ca.key": keyPEM}); err != nil {
		return nil, err
	}
	return loadAuthority(dir)
}

// loadAuthority reads what newAuthority wrote.
func loadAuthority(dir string) (*authority, error) {
	certPEM, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, err
	}
	certDER, _ := pem.Decode(certPEM)
	keyDER, _ := pem.Decode(keyPEM)
	if certDER == nil || keyDER == nil {
		return nil, fmt.Errorf("no PEM in the authority of %s", dir)
	}
	cert, err := x509.ParseCertificate(certDER.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(keyDER.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the authority of %s holds a %T", dir, key)
	}
	return &authority{cert: cert, key: signer, pem: certPEM}, nil
}

// ensurePKI keeps an authority that exists: addresses and credentials survive a
// restart and a wipe.
func ensurePKI(dir, cluster string) (*authority, error) {
	ca, err := loadAuthority(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return createPKI(dir, cluster)
	}
	return ca, err
}

// issue signs a certificate with a new key.
func (a *authority) issue(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err = encodeKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der}), keyPEM, err
}

// client issues a client certificate: Kubernetes reads the user from the common
// name and the groups from the organisations.
func (a *authority) client(user string, groups []string, valid time.Duration) (certPEM, keyPEM []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotAfter:    time.Now().Add(valid),
	})
}

func createServiceAccountKey(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return writeFiles(dir, map[string][]byte{"sa.key": private, "sa.pub": public})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
